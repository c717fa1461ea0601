# SPDX-License-Identifier: Apache-2.0
"""Waits for a stream from several places, through the driver API."""
import ctypes
import threading

cuda = ctypes.CDLL("libcuda.so.1")
context, device, stream = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_void_p()
for status in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0),
               cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
               cuda.cuCtxSetCurrent(context), cuda.cuStreamCreate(ctypes.byref(stream), 1)):
    assert status == 0, status


def inner():
    return cuda.cuStreamSynchronize(stream)  # line 15


def outer():
    return inner()  # line 19


def on_thread():
    cuda.cuCtxSetCurrent(context)
    outer()  # line 24


outer()  # line 27
outer()  # line 28
thread = threading.Thread(target=on_thread)
thread.start()
thread.join()
print("waited")
