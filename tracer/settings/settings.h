/* SPDX-License-Identifier: Apache-2.0
 *
 * The WAYLAY_* settings: what there is (for --help and option parsing) and how values are read.
 * And the job's place among ranks. Used inside the job and by the `waylay` command; depends on nothing else.
 */
#ifndef WAYLAY_TRACER_SETTINGS_H
#define WAYLAY_TRACER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wl_stack_mode { WL_STACK_NONE, WL_STACK_SYNC, WL_STACK_ALL };

#define WL_TRIGGERS_MAX 4
#define WL_TRIGGER_NAME 64
/* "held > TIME" has no range, "RANGE > TIME" one. */
struct wl_trigger {
	char range[WL_TRIGGER_NAME];
	uint64_t more_than_ns;
};
struct wl_triggers {
	struct wl_trigger items[WL_TRIGGERS_MAX];
	unsigned count;
};

enum wl_sink_kind { WL_SINK_SPOOL, WL_SINK_LTTNG };

/* Instances of a range, counted from 0: first <= i < end; end 0: all. */
struct wl_steps {
	uint64_t first, end;
};

enum wl_gpu { WL_GPU_NONE, WL_GPU_CUPTI };
/* Kinds of device activity; WL_GPU_GRAPH: whole graphs in place of their nodes. */
enum wl_gpu_kind {
	WL_GPU_KERNEL = 1,
	WL_GPU_COPY = 2,
	WL_GPU_MEMSET = 4,
	WL_GPU_SYNC = 8,
	WL_GPU_GRAPH = 16
};

/* Read once in the constructor from WAYLAY_* variables. One row of settings.def is one variable,
 * one option of `waylay run`, one line of --help and of the man page. */
struct wl_settings {
	bool enabled;          /* false: pass everything through (bad settings, WAYLAY=0, setuid) */
	const char *directory; /* WAYLAY_DIR */
	const char *run;       /* WAYLAY_RUN */
	uint64_t max_bytes;    /* WAYLAY_MAX_BYTES */
	const char *clock;     /* WAYLAY_CLOCK */
	enum wl_stack_mode stacks;   /* WAYLAY_STACK */
	unsigned stack_depth;        /* WAYLAY_STACK_DEPTH */
	bool cuda, ofi, nvtx;        /* WAYLAY_CUDA, WAYLAY_OFI, WAYLAY_NVTX */
	bool ofi_layers;             /* WAYLAY_OFI_LAYERS */
	bool ofi_door;               /* WAYLAY_OFI_DOOR: for `waylay run` alone */
	const char *nvtx_chain;      /* WAYLAY_NVTX_CHAIN */
	enum wl_gpu gpu;             /* WAYLAY_GPU */
	unsigned gpu_kinds;          /* WAYLAY_GPU_KINDS, bits of enum wl_gpu_kind */
	const char *cupti;           /* WAYLAY_CUPTI */
	bool flight_recorder;        /* WAYLAY_FLIGHT_RECORDER */
	bool thread;                 /* WAYLAY_THREAD */
	uint64_t delay_ns;           /* WAYLAY_DELAY */
	uint64_t duration_ns;        /* WAYLAY_DURATION; 0: to the end */
	const char *only_range;      /* WAYLAY_ONLY_RANGE */
	struct wl_triggers triggers; /* WAYLAY_TRIGGER */
	struct wl_steps steps;       /* WAYLAY_ONLY_STEPS */
	enum wl_sink_kind sink;      /* WAYLAY_SINK */
	/* WAYLAY_SESSION, _RELAY, _BLOCK, _SUBBUF: for `waylay run` alone */
	const char *session, *relay;
	bool block;
	uint64_t subbuf;
	bool debug; /* WAYLAY_DEBUG */
};

#define WL_STACK_DEPTH_MAX 128
#define WL_RELAY_PORT      5342 /* LTTng's own default for control; data goes to the next one */
#define WL_RELAY_HOST_MAX  1024

enum wl_setting_type {
	WL_SETTING_BOOL,
	WL_SETTING_SIZE,
	WL_SETTING_COUNT,
	WL_SETTING_TEXT,
	WL_SETTING_DIR,
	WL_SETTING_CLOCK,
	WL_SETTING_STACKS,
	WL_SETTING_GPU,
	WL_SETTING_KINDS,
	WL_SETTING_TIME,
	WL_SETTING_STEPS,
	WL_SETTING_TRIGGER,
	WL_SETTING_SINK,
	WL_SETTING_RELAY,
};

struct wl_setting {
	const char *variable; /* "WAYLAY_DIR" */
	const char *option;   /* "dir"; "" where `waylay run` has none */
	enum wl_setting_type type;
	const char *fallback; /* default, as it would be written */
	const char *argument; /* of the option, "" for a BOOL */
	const char *help;
	size_t offset; /* of its member in struct wl_settings */
};

/* The rows of settings.def; count gets their number. */
const struct wl_setting *wl_setting_rows(unsigned *count);
/* The row of a variable, NULL if there is none. */
const struct wl_setting *wl_setting_by_variable(const char *variable);
/* What a BOOL's option, which takes no argument, puts into the variable: the opposite of its
 * default. */
const char *wl_setting_flag_value(const struct wl_setting *row);
/* What values a row accepts, in words. */
const char *wl_setting_accepts(const struct wl_setting *row);

void wl_settings_defaults(struct wl_settings *settings);
/* Stores one value; texts are kept by pointer. 0, or -EINVAL with one line in err: what, the value,
 * what is accepted. settings may be NULL to check alone. */
int wl_setting_parse(struct wl_settings *settings, const struct wl_setting *row, const char *value,
		     char *err, size_t err_size);
/* A time such as 5s, 200ms, 50us, 1.5s is not one: whole numbers of ns, us, ms, s, m, h; 0 needs no
 * unit. False when it is not understood. */
bool wl_time_parse(const char *value, uint64_t *ns);
/* HOST, HOST:PORT or [IPV6]:PORT: how much of it is the host, and the port. False when it is none of them. */
bool wl_relay_parse(const char *value, int *host_length, unsigned *port);
/* Defaults, then every WAYLAY_* variable of the environment (NULL-terminated "NAME=value" strings,
 * which must outlive settings). 0, or -EINVAL with one line in err. */
int wl_settings_read(struct wl_settings *settings, char *const *environment, char *err,
		     size_t err_size);

/* What the launcher (torchrun, Open MPI, MPICH and its kin, PMIx, Slurm) says about this process's place; -1
 * each where nothing is known. */
void wl_ranks_read(int *rank, int *world_size, int *local_rank);
/* The launcher's name in words, NULL without one. */
const char *wl_ranks_launcher(void);

#endif
