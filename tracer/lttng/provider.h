/* SPDX-License-Identifier: Apache-2.0
 *
 * The LTTng-UST provider "waylay": one event for each of the event table, made from it, with typed fields
 * and texts inline; and a few about the process. Read several times over by LTTng's own headers.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER waylay

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tracer/lttng/provider.h"

#if !defined(WAYLAY_TRACER_LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define WAYLAY_TRACER_LTTNG_PROVIDER_H

#include "tracer/events/events.h"
#include "tracer/events/sink.h"

#include <lttng/tracepoint.h>

/* A field by how it is shown. */
#define LT_NUM(type, name)            lttng_ust_field_integer(WL_T_##type, name, a->name)
#define LT_HEX(type, name)            lttng_ust_field_integer_hex(WL_T_##type, name, a->name)
#define LT_BYTES(type, name)          LT_NUM(type, name)
#define LT_NS(type, name)             LT_NUM(type, name)
#define LT_STATUS(type, name)         LT_NUM(type, name)
#define LT_FLAGS(type, name)          LT_HEX(type, name)
#define LT_STR(type, name)            lttng_ust_field_string(name, r->text(a->name))
#define LT_STACK(type, name)          lttng_ust_field_string(name, r->stack)
#define LT_WORD(type, name, which)    lttng_ust_field_enum(waylay, which, WL_T_##type, name, a->name)
#define LT_E_rule(type, name)         lttng_ust_field_string(name, wl_rule_info(a->name)->word)
#define LT_E_call_class(type, name)   LT_WORD(type, name, call_class)
#define LT_E_mem_kind(type, name)     LT_WORD(type, name, mem_kind)
#define LT_E_mem_op(type, name)       LT_WORD(type, name, mem_op)
#define LT_E_stream_kind(type, name)  LT_WORD(type, name, stream_kind)
#define LT_E_ofi_op(type, name)       LT_WORD(type, name, ofi_op)
#define LT_E_ofi_kind(type, name)     LT_WORD(type, name, ofi_kind)
#define LT_E_hmem_iface(type, name)   LT_WORD(type, name, hmem_iface)
#define LT_E_payload_type(type, name) LT_WORD(type, name, payload_type)
#define LT_E_gpu_wait(type, name)     LT_WORD(type, name, gpu_wait)

#define V(name, number, word) lttng_ust_field_enum_value(#word, number)
#define WL_ENUM(name, values)                                                                      \
	LTTNG_UST_TRACEPOINT_ENUM(waylay, name, LTTNG_UST_TP_ENUM_VALUES(values))
#define A(type, name, show) LT_##show(type, name)
#define WL_EVENT(name, number, category, form, args_)                                              \
	LTTNG_UST_TRACEPOINT_EVENT(                                                                \
		waylay, name,                                                                      \
		LTTNG_UST_TP_ARGS(const struct sink_record *, r, const struct wl_ev_##name *, a),  \
		LTTNG_UST_TP_FIELDS(                                                               \
			lttng_ust_field_integer(uint64_t, begin, r->begin)                         \
				lttng_ust_field_integer(uint64_t, duration, r->duration)           \
					lttng_ust_field_integer_hex(uint32_t, flags_, r->flags)    \
						lttng_ust_field_integer(uint32_t, pid, r->pid)     \
							lttng_ust_field_integer(uint32_t, tid,     \
										r->tid) args_))
#include "tracer/events/events.def"
#undef V
#undef A

LTTNG_UST_TRACEPOINT_EVENT(
	waylay, entry, LTTNG_UST_TP_ARGS(const struct sink_entry *, e),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(event, e->event) lttng_ust_field_string(api, e->api)
			lttng_ust_field_integer(uint64_t, since, e->since)
				lttng_ust_field_integer_hex(uint64_t, object, e->object)
					lttng_ust_field_integer(uint32_t, pid, e->pid)
						lttng_ust_field_integer(uint32_t, tid, e->tid)
							lttng_ust_field_string(stack, e->stack)))

LTTNG_UST_TRACEPOINT_EVENT(
	waylay, process, LTTNG_UST_TP_ARGS(const struct sink_process *, p),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, pid, p->pid) lttng_ust_field_integer(
			uint32_t, ppid, p->ppid) lttng_ust_field_integer(uint64_t, pid_namespace,
									 p->pid_namespace)
			lttng_ust_field_integer(uint64_t, start_ticks,
						p->start_ticks) lttng_ust_field_integer(int32_t,
											rank,
											p->rank)
				lttng_ust_field_integer(int32_t, world_size, p->world_size)
					lttng_ust_field_integer(
						int32_t, local_rank,
						p->local_rank) lttng_ust_field_string(host, p->host)
						lttng_ust_field_string(run, p->run)
							lttng_ust_field_string(name, p->name)
								lttng_ust_field_string(version,
										       p->version)))

LTTNG_UST_TRACEPOINT_EVENT(waylay, attribute,
			   LTTNG_UST_TP_ARGS(uint32_t, process, const char *, k, const char *, v),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, pid, process)
						       lttng_ust_field_string(key, k)
							       lttng_ust_field_string(value, v)))

LTTNG_UST_TRACEPOINT_EVENT(waylay, thread,
			   LTTNG_UST_TP_ARGS(uint32_t, process, uint32_t, number, const char *, n),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, pid, process)
						       lttng_ust_field_integer(uint32_t, tid,
									       number)
							       lttng_ust_field_string(name, n)))

LTTNG_UST_TRACEPOINT_EVENT(
	waylay, clock, LTTNG_UST_TP_ARGS(const struct sink_clock *, c),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, pid, c->pid) lttng_ust_field_integer(
		int64_t, monotonic_ns,
		c->monotonic_ns) lttng_ust_field_integer(int64_t, boottime_ns, c->boottime_ns)
				    lttng_ust_field_integer(int64_t, realtime_ns, c->realtime_ns)))

LTTNG_UST_TRACEPOINT_EVENT(
	waylay, lost, LTTNG_UST_TP_ARGS(uint32_t, process, uint32_t, why, uint64_t, n),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, pid, process)
				    lttng_ust_field_integer(uint32_t, reason, why)
					    lttng_ust_field_integer(uint64_t, count, n)))

LTTNG_UST_TRACEPOINT_EVENT(waylay, end, LTTNG_UST_TP_ARGS(uint32_t, process, uint64_t, at),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, pid, process)
						       lttng_ust_field_integer(uint64_t,
									       monotonic_ns, at)))

#endif

#include <lttng/tracepoint-event.h>
