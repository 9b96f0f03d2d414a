#ifndef KILN_CLIENT_C_API_KILN_H_
#define KILN_CLIENT_C_API_KILN_H_

/* Kiln's stable C ABI: compile a tensor graph through a daemon, run it.
 *
 *   KilnSession* session;     a daemon (or a worker of one's own) and a device
 *   KilnGraph* graph;         ATen operators over values, built call by call
 *   KilnCallable* callable;   the graph compiled and loaded; any thread may run it
 *   KilnResults* results;     what one run gave, until it is freed
 *
 * Functions that may fail return NULL for success, else a KilnStatus that the
 * caller frees. On failure output parameters are not written. Strings are UTF-8
 * and end with NUL. A struct with `struct_size` is set to sizeof it by the
 * caller, so that later versions may grow it; zero every field not meant.
 * What no caller can mean is INVALID_ARGUMENT: a number that is no enumerator, a
 * negative count, NULL where entries are counted, a symbol or value that the
 * graph has not. The message says where, what was found and what was expected.
 * Handles (KilnSession* and so on) must be such as a function here gave.
 * example.c shows a whole program. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_ABI_VERSION 1
/* The version of the library, to be compared with KILN_ABI_VERSION. */
uint32_t kiln_abi_version(void);

/* ---- Errors ---- */

typedef struct KilnStatus KilnStatus;
/* A gRPC status code, never 0. */
int kiln_status_code(const KilnStatus* status);
/* "UNSUPPORTED_OP" and so on (docs/errors.md); "" when there is none. */
const char* kiln_status_reason(const KilnStatus* status);
const char* kiln_status_message(const KilnStatus* status);
/* The nodes of the graph that Kiln does not compile, and leaves to the caller's
 * framework: each once, in their order. 0: the status tells of none. The others
 * take an index below that, and give 0 or "" beyond. */
int32_t kiln_status_refusal_count(const KilnStatus* status);
/* The node's place among the graph's, from 0. */
uint32_t kiln_status_refusal_node(const KilnStatus* status, int32_t index);
/* "aten.add.Tensor" */
const char* kiln_status_refusal_operator(const KilnStatus* status,
                                         int32_t index);
/* "UNSUPPORTED_OP"; "MALFORMED_GRAPH": a result is not as it was declared. */
const char* kiln_status_refusal_reason(const KilnStatus* status, int32_t index);
/* Why, for people. */
const char* kiln_status_refusal_text(const KilnStatus* status, int32_t index);
/* 1: there may be further ones, which a compile without these would tell of. */
int kiln_status_refuses_more(const KilnStatus* status);
void kiln_status_free(KilnStatus* status); /* NULL is fine */

/* ---- Tensors ---- */

typedef enum KilnDType {
  KILN_BOOL = 1,
  KILN_UINT8 = 2,
  KILN_INT8 = 3,
  KILN_INT16 = 4,
  KILN_INT32 = 5,
  KILN_INT64 = 6,
  KILN_FLOAT16 = 7,
  KILN_BFLOAT16 = 8,
  KILN_FLOAT32 = 9,
  KILN_FLOAT64 = 10
} KilnDType;

typedef enum KilnDevice { KILN_CPU = 0, KILN_CUDA = 1 } KilnDevice;

/* What a run takes and gives: a tensor, an integer, or (results only) nothing.
 * `sizes` and `strides` (in elements) have `rank` entries each. */
typedef enum KilnValueKind {
  KILN_NOTHING = 0,
  KILN_TENSOR = 1,
  KILN_INTEGER = 2
} KilnValueKind;

typedef struct KilnValue {
  KilnValueKind kind;
  KilnDType dtype;
  int32_t rank;
  void* data; /* the first element */
  const int64_t* sizes;
  const int64_t* strides;
  int64_t integer;
} KilnValue;

/* ---- Session ---- */

typedef struct KilnSession KilnSession;

typedef enum KilnFallback {
  KILN_FALLBACK_ERROR = 0,        /* no daemon in time: an error */
  KILN_FALLBACK_LOCAL_WORKER = 1, /* then compile in a worker of one's own */
  KILN_LOCAL_ONLY = 2             /* never ask a daemon */
} KilnFallback;

/* The signed artifacts that sessions used, to be handed to another machine,
 * and those that came from one, which sessions find before they ask a daemon.
 * Any number of sessions may share one; thread-safe. */
typedef struct KilnShelf KilnShelf;

/* How far the compile of `graph` is. */
typedef enum KilnStage {
  KILN_QUEUED = 1,
  KILN_PLANNING = 2,
  KILN_BUILDING = 3, /* `done` of `total` kernels */
  KILN_STORING = 4,
  KILN_ELSEWHERE = 5 /* another daemon makes it, and this one waits */
} KilnStage;

typedef struct KilnProgress {
  const char* graph; /* its name; good during the call */
  int32_t stage;     /* a KilnStage, or a later daemon's other number */
  int32_t done;
  int32_t total;
} KilnProgress;

/* More urgent compiles come first at a daemon; none waits for ever. */
typedef enum KilnUrgency {
  KILN_INTERACTIVE = 0, /* somebody waits: a rank that trains */
  KILN_BACKGROUND = 1,
  KILN_PREWARM = 2 /* may be wanted some day */
} KilnUrgency;

enum { KILN_PUBLIC_KEY_BYTES = 32 };

typedef struct KilnSessionOptions {
  size_t struct_size;
  /* The daemon's Unix socket. NULL, and no `tcp`: KILN_ADDR and the like in the
   * environment, or kiln.toml, say which daemons are asked, with what. */
  const char* socket;
  KilnFallback fallback;
  const char* worker_program; /* kiln-worker, for the fallbacks */
  const char* scratch_folder; /* for its files; NULL: "/tmp" */
  KilnDevice device;
  int32_t ordinal; /* of the GPU, from 0 */
  int32_t threads; /* CPU threads of kernels, to 1024; 0: one a core */
  int64_t compile_deadline_ms; /* 0: two minutes */
  /* Since here a smaller struct_size is fine: what it leaves out is zero. */
  const char* tcp; /* "host:port", instead of a socket; takes public keys */
  /* KILN_PUBLIC_KEY_BYTES each, one after another: who may sign for the daemon
   * behind `tcp`, and who may have signed what comes in bundles. */
  const uint8_t* public_keys;
  int32_t public_key_count;
  KilnShelf* shelf; /* NULL: none; the session keeps a share of its own */
  /* Told of each step of a daemon's compile, on the thread that waits for it:
   * so by several at once. May be NULL. */
  void (*on_progress)(void* context, const KilnProgress* progress);
  void* progress_context; /* must live as long as session and callables */
  /* What a local worker gets beside PATH, HOME, LANG and TMPDIR: lines of
   * NAME=value, as KILN_HOST_CC=/usr/bin/clang++. NULL: nothing. */
  const char* worker_environment;
  /* Called before the fallback when the daemon is gone or does not answer, on the
   * thread that compiles or runs, so several may be in it at once. May start a
   * daemon. Writes the address of one that runs, "unix:/path" or "host:port", to
   * `address` and returns 1: the session uses that one from now on, unless it is
   * the one that does not answer. Returns 0 if there is none. May be NULL. */
  int32_t (*find_daemon)(void* context, char* address, size_t size);
  void* find_context; /* must live as long as session and callables */
  /* The namespace of the artifacts: 1 to 63 of a-z, 0-9, '-', '_' and '.'. NULL or
   * "": "default". */
  const char* cache_namespace;
  /* How a daemon at "host:port" and this program authenticate to each other: PEM
   * files, and a file with a token in its first line. All are read again when they
   * change. Without tls_ca only a loopback address is called, without TLS.
   * NULL or "": none. */
  const char* tls_ca;          /* who signs daemons' certificates */
  const char* tls_certificate; /* this program's own, with its key */
  const char* tls_key;
  const char* token_file; /* as `compilectl tokens add` makes a token */
  KilnUrgency urgency;    /* how soon its compiles are wanted */
  /* Other daemons that serve the same requests: "unix:/path" and "host:port",
   * separated by commas. Each request goes to one of them; all programs that name
   * the same daemons choose the same one. If it is gone, the next is asked, and
   * find_daemon is not called. They are trusted as the first is. NULL or "":
   * none. */
  const char* more_daemons;
  /* 1: runs are device graphs where the device captures: of each graph and sizes
   * the first run warms up, the second is recorded, later ones are replayed as
   * one launch. For programs whose short kernels wait for the host. Runs wait
   * for one another then, and results hold until the next step that
   * kiln_session_mark_step_begin begins. A run with an allocator or functions to call
   * goes without a graph (kiln_graphs.h tells). Runs on several streams are put in order;
   * other work that reads results is the caller's to order before the next one's. */
  int32_t graphs;
  /* NULL: the defaults. kiln_graphs.h has it. Not looked at without graphs. */
  const struct KilnGraphOptions* graph_options;
} KilnSessionOptions;

enum { KILN_ADDRESS_BYTES = 1024 }; /* room in `address`, its end included */

KilnStatus* kiln_session_open(const KilnSessionOptions* options,
                              KilnSession** session);
/* Callables made by it stay good. NULL is fine. */
void kiln_session_close(KilnSession* session);
/* The next run is the first of a step: results of graphs of earlier steps may be
 * overwritten. Without any, a result is its caller's as long as he keeps it, and
 * a loop that keeps one from each turn to the next records anew. Nothing for a
 * session without graphs. */
void kiln_session_mark_step_begin(KilnSession* session);

/* ---- Artifacts that travel ---- */

KilnShelf* kiln_shelf_new(void);
void kiln_shelf_free(KilnShelf* shelf); /* NULL is fine */

/* All artifacts that sessions of the shelf used so far and a daemon signed, as
 * one bundle. Writes it when `size` bytes hold it, else nothing; gives its
 * length, which may have grown at the next call. */
size_t kiln_shelf_save(const KilnShelf* shelf, void* buffer, size_t size);

/* Puts the artifacts of a bundle on the shelf: all of them, or none. Each must
 * be sound, signed by a key that its session trusts (its daemon's or one of
 * public_keys) and good for the device of one of `sessions`. Writes their
 * number.
 *   ARTIFACT_CORRUPT       cut short or changed
 *   ARTIFACT_UNTRUSTED     not signed by a trusted key
 *   ARTIFACT_INCOMPATIBLE  of another version, or for other devices */
KilnStatus* kiln_shelf_load(KilnShelf* shelf, KilnSession* const* sessions,
                            int32_t session_count, const void* bytes,
                            size_t length, int32_t* artifacts);
/* The devices that a bundle's artifacts are for: bits 1 << KilnDevice. Errors:
 * ARTIFACT_CORRUPT, ARTIFACT_INCOMPATIBLE as above. */
KilnStatus* kiln_bundle_devices(const void* bytes, size_t length,
                                uint32_t* devices);

/* ---- Graph ---- */

typedef struct KilnGraph KilnGraph;

/* `factor`, or `factor` times a symbol: 256 is {256, -1}, N is {1, n}. */
typedef struct KilnSize {
  int64_t factor;
  int32_t symbol; /* as kiln_graph_symbol gave it; -1: none */
} KilnSize;

/* A tensor in a graph, of rank 0 to 64: contiguous when `strides` is NULL. */
typedef struct KilnSpec {
  KilnDType dtype;
  int32_t rank;
  const KilnSize* sizes;
  const KilnSize* strides;
} KilnSpec;

/* One argument of an operator. */
typedef enum KilnArgKind {
  KILN_ARG_NONE = 0,
  KILN_ARG_VALUE = 1, /* `integer` is a value's number */
  KILN_ARG_INTEGER = 2,
  KILN_ARG_FLOAT = 3,
  KILN_ARG_BOOL = 4,     /* `integer` is 0 or 1 */
  KILN_ARG_SIZE = 5,     /* `integer` times symbol `symbol` */
  KILN_ARG_INTEGERS = 6, /* `count` of `integers` */
  KILN_ARG_DTYPE = 7,    /* `integer` is a KilnDType */
  KILN_ARG_VALUES = 8,   /* `count` of `integers` are values' numbers, or -1:
                            none, as x[:, i] has for its first index */
  KILN_ARG_SIZES = 9,    /* `count` of `sizes` */
  KILN_ARG_STRING = 10   /* `string` */
} KilnArgKind;

typedef struct KilnArg {
  KilnArgKind kind;
  int64_t integer;
  double floating;
  int32_t symbol;
  const int64_t* integers;
  int32_t count;
  const KilnSize* sizes;
  const char* string;
  const char* name; /* as in the operator's schema; NULL: by position */
} KilnArg;

/* Builds a graph for tensors on `device`. Mistakes are kept and come out of
 * kiln_compile. */
KilnGraph* kiln_graph_new(const char* name, KilnDevice device);
/* A serialized kiln.wire.Graph, for bindings that write it themselves. */
KilnStatus* kiln_graph_parse(const void* bytes, size_t length,
                             KilnGraph** graph);
void kiln_graph_free(KilnGraph* graph); /* NULL is fine */

/* A named unknown size; `hint` is its value in the call at hand, 0 if unknown.
 * It must stand alone as a size of an input. Returns its number. */
int32_t kiln_graph_symbol(KilnGraph* graph, const char* name, int64_t hint);
/* Inputs come before nodes. Both return the number of the value. */
uint32_t kiln_graph_input(KilnGraph* graph, const char* name,
                          const KilnSpec* spec);
uint32_t kiln_graph_node(KilnGraph* graph, const char* op, const KilnArg* args,
                         int32_t count, const KilnSpec* result);
void kiln_graph_output(KilnGraph* graph, uint32_t value);

/* ---- Compile and run ---- */

typedef struct KilnCallable KilnCallable;
typedef struct KilnResults KilnResults;

KilnStatus* kiln_compile(KilnSession* session, const KilnGraph* graph,
                         KilnCallable** callable);
/* The same with options: `length` bytes of a serialized
 * kiln.wire.CompileOptions, for bindings that write it themselves. */
KilnStatus* kiln_compile_with(KilnSession* session, const KilnGraph* graph,
                              const void* options, size_t length,
                              KilnCallable** callable);
void kiln_callable_free(KilnCallable* callable); /* NULL is fine */
/* Of a session with graphs, before the first run: these of the inputs stay where
 * they are, as weights do. Replays read them there and copy the others. */
KilnStatus* kiln_callable_static_inputs(KilnCallable* callable,
                                        const int32_t* inputs, int32_t count);

typedef enum KilnServedFrom {
  KILN_SERVED_FROM_CACHE = 1,
  KILN_SERVED_FROM_COMPILE = 2,
  KILN_SERVED_FROM_JOINED = 3 /* somebody else's compile */
} KilnServedFrom;

/* What the latest compile of a callable took. */
typedef struct KilnReport {
  size_t struct_size; /* set by the caller */
  int32_t artifacts;  /* so far: one, unless guards failed */
  int32_t by_local_worker;
  KilnServedFrom served_from;
  int64_t compile_us; /* request to artifact */
  int64_t load_us;    /* artifact to callable */
  int32_t units_built;
  int32_t units_cached;
  /* Since here a smaller struct_size is fine: what it leaves out is not told.
   * 1: a local worker compiled since no daemon answered: none listens, or the
   * connection broke. KILN_TEXT_DAEMON has the words. */
  int32_t daemon_lost;
  /* 1: its first artifact reads the run's seed. */
  int32_t reads_seed;
} KilnReport;

KilnStatus* kiln_callable_report(const KilnCallable* callable,
                                 KilnReport* report);

/* Texts of a callable: of its first artifact, where nothing else is said. */
typedef enum KilnText {
  KILN_TEXT_PLAN = 1,     /* the launch plan with its kernels */
  KILN_TEXT_SOURCES = 2,  /* what was written for the compilers */
  KILN_TEXT_COUNTERS = 3, /* a line each: name, blank, number */
  KILN_TEXT_DAEMON = 4,   /* why a local worker compiled the latest artifact:
                             what the daemon said; "" when it was not asked */
  KILN_TEXT_GUARDS = 5,   /* a line for each artifact but the first: the guard
                             of the one before it that failed for a run */
  KILN_TEXT_KEY = 6,      /* its compile key, as compilectl show takes it */
  KILN_TEXT_MEASURED = 7, /* why something that max_autotune wants measured was
                             not, at the latest compile; "" when all was, or
                             nobody asked */
  KILN_TEXT_KERNELS = 8,  /* a line each: symbol, and the stem and the number
                             that its name for people is made of */
  KILN_TEXT_LIBRARY_CALLS = 9, /* a line for each library call and each of its
                             latest shapes: what, library, algorithm. Of a
                             graph with symbols: those that have run */
  KILN_TEXT_CONTRACTIONS = 10  /* a line for each: who computes it, and why */
} KilnText;

/* Writes at most `size` bytes with the closing NUL; gives the length of the
 * whole text without it. */
size_t kiln_callable_text(const KilnCallable* callable, KilnText what,
                          char* buffer, size_t size);

/* Runs on `inputs`, in the graph's order; mutated inputs are written. Equal
 * seeds give equal random numbers. `stream`: a CUstream, or NULL. On CUDA the
 * results are ready once the work on the stream is done. Thread-safe. */
KilnStatus* kiln_run(KilnCallable* callable, const KilnValue* inputs,
                     int32_t count, uint64_t seed, void* stream,
                     KilnResults** results);

/* Memory that the caller lends for results, and for what a run computes on its
 * way, which is released before the run returns: work on `stream` may still use
 * it, so it must not be given to another stream. A framework's own allocator. Both
 * functions may be called from any thread, `release` until the last result is
 * freed. `stream` is that of the run. */
typedef struct KilnAllocator {
  void* context;
  /* At least `bytes` at an address that is a multiple of 64 (CPU) or 256
   * (CUDA); NULL: there is no such memory. */
  void* (*allocate)(void* context, int64_t bytes, void* stream);
  void (*release)(void* context, void* memory, int64_t bytes, void* stream);
} KilnAllocator;

/* A shorter input is not worth a call when a run is done with it. */
enum { KILN_LEAST_INPUT_BYTES = 1 << 20 };

/* A kernel that a run is about to launch, or just has. Good during the call that
 * tells of it. */
typedef struct KilnLaunch KilnLaunch;
/* "kiln_poi_fused_add_cos_sin_0": unique in its graph. */
const char* kiln_launch_name(const KilnLaunch* launch);

/* A node of the graph as it was given to kiln_compile; "" for what was not. */
typedef struct KilnNode {
  const char* name;
  const char* op;
  const char* stack_trace;
} KilnNode;

/* What is known of a launch. All that it names is good as long as the launch. */
typedef struct KilnLaunchFacts {
  size_t struct_size;    /* set by the caller */
  const char* symbol;    /* of the kernel's code */
  const char* operators; /* it came from: "add,cos" */
  void* stream;
  int64_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  uint32_t cluster;           /* blocks a cluster along x; 0: none */
  const KilnValue* arguments; /* tensors without data and strides; KILN_NOTHING:
                                 no tensor */
  int32_t argument_count;
  const char* mapping;    /* "XBLOCK=1024,VECTOR=4": how work is dealt out */
  const int64_t* extents; /* points, and reduced points of each */
  int32_t extent_count;
  int64_t bytes_read;
  int64_t bytes_written;
  const char* source; /* of the unit that defines it; ends with no NUL */
  size_t source_length;
  /* Since here a smaller struct_size is fine: what it leaves out is not told.
   * The nodes that the launch does work of. */
  const KilnNode* nodes;
  int32_t node_count;
} KilnLaunchFacts;

/* Worked out at the first call for a launch. */
KilnStatus* kiln_launch_facts(KilnLaunch* launch, KilnLaunchFacts* facts);

/* What the steps of runs were, and when, for Chrome's trace viewer and Perfetto.
 * A run that is traced waits for the device after each step; a device graph's
 * replay is one, with the names of its kernels. Thread-safe. */
typedef struct KilnTrace KilnTrace;
KilnTrace* kiln_trace_new(void);
void kiln_trace_free(KilnTrace* trace); /* NULL is fine */
/* As JSON: writes at most `size` bytes with the closing NUL; gives the length of
 * the whole text without it. */
size_t kiln_trace_json(const KilnTrace* trace, char* buffer, size_t size);

typedef struct KilnRunOptions {
  size_t struct_size;
  uint64_t seed;
  void* stream;
  /* Copied; what it names must live as long as the results. NULL: memory of
   * the library's own. */
  const KilnAllocator* allocator;
  /* Since here a smaller struct_size is fine: what it leaves out is zero.
   * Told, on the thread that runs, of each tensor input of
   * KILN_LEAST_INPUT_BYTES or more that no result views (and of others, where a size is not known), once all
   * work that reads it is on `stream`: who owns it alone may free it then, so
   * that what the run allocates later takes its memory. May be NULL. */
  void (*on_input_done)(void* context, int32_t input);
  void* input_context;
  /* Makes tensor result `index`, which will be `like` (whose data is NULL): an
   * object of the caller's own, for example a framework's tensor. Gives the
   * address of its first element, aligned as an allocator's memory, with room for
   * what its sizes and strides span; the caller keeps it while work of the run is
   * on the stream, also when the run fails. NULL: the run takes memory as for the
   * results that this is not asked for: empty ones, those that share memory with
   * others or an input, and those whose sizes a step finds out. On the thread
   * that runs. May be NULL. */
  void* (*make_result)(void* context, int32_t index, const KilnValue* like);
  void* result_context;
  /* Told, on the thread that runs, of each launch before it is made (`after` 0)
   * and when it was (1). May be NULL. */
  void (*on_launch)(void* context, KilnLaunch* launch, int32_t after);
  void* launch_context;
  KilnTrace* trace; /* NULL: none */
  /* 8 bytes on the device, whose number when the work runs is the seed in place of
   * the one above. For work that the caller captures: he writes
   * another seed there before each replay. NULL: the run sees to it. */
  void* seed_slot;
} KilnRunOptions;

/* kiln_run with options that may grow. */
KilnStatus* kiln_run_with(KilnCallable* callable, const KilnValue* inputs,
                          int32_t count, const KilnRunOptions* options,
                          KilnResults** results);
int32_t kiln_results_count(const KilnResults* results);
/* Good until the results are freed. KILN_NOTHING beyond the last. */
KilnValue kiln_results_get(const KilnResults* results, int32_t index);
void kiln_results_free(KilnResults* results); /* NULL is fine */

/* Keeps the memory of one result, apart from the others. */
typedef struct KilnMemory KilnMemory;
/* A share in the memory of a tensor result, which outlives the results. NULL
 * when the caller keeps it alive: no tensor, a view of an input, or what
 * make_result made. */
KilnMemory* kiln_results_share(const KilnResults* results, int32_t index);
/* Where the block begins that a result lies in, with others perhaps. NULL: of NULL. */
const void* kiln_memory_data(const KilnMemory* memory);
void kiln_memory_free(KilnMemory* memory); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif /* KILN_CLIENT_C_API_KILN_H_ */
