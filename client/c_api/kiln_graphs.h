#ifndef KILN_CLIENT_C_API_KILN_GRAPHS_H_
#define KILN_CLIENT_C_API_KILN_GRAPHS_H_

/* Device graphs that share one pool of memory and are replayed in any order,
 * for a framework that has tensors, an allocator and captures of its own. While
 * a call goes on, no other thread drops storages of its tree.
 *
 * A function is warmed up by its first call, recorded by its second and
 * replayed by later ones, as runtime/graph_tree/graph_tree.h tells. What that
 * takes of the framework is asked through a KilnGraphHost. Conventions are
 * those of kiln.h. A tree is one device's, and not thread-safe. */

#include "client/c_api/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Nanoseconds of the clock that traces are on. */
int64_t kiln_trace_now(void);
/* Adds a replay to a trace, from `start` until now, with the names of the kernels
 * in it. For a host that launches its graphs itself. */
void kiln_trace_add_replay(KilnTrace* trace, int64_t start,
                           const char* const* kernels, int32_t count);

typedef struct KilnGraphTree KilnGraphTree;

/* An input of a call. `storage`: the object that owns the tensor's memory, by
 * identity; both storage fields may wait for find_storages. */
typedef struct KilnGraphInput {
  int32_t is_tensor; /* on the device */
  const void* address;
  void* storage;
  const void* storage_address;
} KilnGraphInput;

typedef struct KilnGraphOutput {
  int32_t is_tensor;
  int32_t on_device;
  void* storage;
  const void* storage_address; /* NULL: it has no memory */
} KilnGraphOutput;

/* Where an input is when a graph is replayed. */
typedef enum KilnGraphUse {
  KILN_GRAPH_NO_TENSOR = 0,
  KILN_GRAPH_STATIC = 1,  /* where the caller has it, always the same place */
  KILN_GRAPH_MANAGED = 2, /* an earlier graph's output */
  KILN_GRAPH_COPIED = 3   /* in the pool; each replay copies it there */
} KilnGraphUse;

/* How a replay gives an output. */
typedef enum KilnGraphRuleKind {
  KILN_GRAPH_VALUE = 0,  /* what the recording saw */
  KILN_GRAPH_AS_IS = 1,  /* the recorded tensor: its memory is not the pool's */
  KILN_GRAPH_CACHED = 2, /* one tensor object, the same each time */
  KILN_GRAPH_FRESH = 3,  /* a new one, on memory of the graph */
  KILN_GRAPH_OF_OUTPUT = 4, /* on the storage of output `index` */
  KILN_GRAPH_OF_STORAGE = 5 /* on `storage`, which is live */
} KilnGraphRuleKind;

typedef struct KilnGraphRule {
  int32_t kind;
  int32_t index;
  void* storage;
} KilnGraphRule;

/* What warm_up and record call for each output, in order. */
typedef void (*KilnGraphTell)(void* outputs, const KilnGraphOutput* output);

/* The framework. `context` is its own, as are `body` and `caller` of functions
 * and calls, and what checkpoint and record give. Functions that may fail give
 * 0 (or a handle), else -1 (or NULL) and keep what was wrong. */
typedef struct KilnGraphHost {
  size_t struct_size;
  void* context;
  /* Weak references: a watched storage may die, its identity stays taken. */
  void (*watch)(void* context, void* storage);
  void (*unwatch)(void* context, void* storage);
  /* 1 when somebody beside the recording uses it. `cached`: what cached gave,
   * of a tensor on this storage, or NULL. */
  int32_t (*is_live)(void* context, void* storage, void* cached);
  /* Frees a live storage's memory; access is an error from now on. */
  void (*invalidate)(void* context, void* storage, const char* text);
  /* The pool's blocks, and back to them: each of `live` owns its block then. */
  void* (*checkpoint)(void* context);
  void (*free_checkpoint)(void* context, void* checkpoint);
  int32_t (*restore)(void* context, void* checkpoint, void* const* live,
                     int32_t count);
  int32_t (*free_block)(void* context, const void* address);
  /* All blocks. Asked after each recording, whose outputs must lie in them. */
  int32_t (*tell_blocks)(void* context,
                         void (*tell)(void* blocks, const void* address),
                         void* blocks);
  /* Calls `body` without a graph; with memory from the pool; captured. A
   * capture runs nothing, and first_run is the graph's first. Each gives the
   * caller its outputs but record, whose first_run does. */
  int32_t (*run_plainly)(void* context, void* body, void* caller);
  int32_t (*warm_up)(void* context, void* body, void* caller,
                     KilnGraphTell tell, void* outputs);
  void* (*record)(void* context, void* body, void* caller,
                  const KilnGraphUse* uses, int32_t count, KilnGraphTell tell,
                  void* outputs);
  void (*free_recording)(void* context, void* recording);
  /* Outputs of rules VALUE and AS_IS are kept for replays. */
  int32_t (*first_run)(void* context, void* recording, void* caller,
                       const KilnGraphRule* rules, int32_t count);
  /* Copies inputs, launches, gives the outputs by `rules`, writes the storage
   * of each tensor to `storages`, and drops the caller's inputs. */
  int32_t (*replay)(void* context, void* recording, void* caller,
                    const KilnGraphRule* rules, void** storages, int32_t count);
  /* The tensor that a replay by KILN_GRAPH_CACHED keeps, or NULL. */
  void* (*cached)(void* context, void* recording, int32_t output);
  void (*drop_cached)(void* context, void* recording, int32_t output);
  int32_t (*find_storages)(void* context, void* caller, KilnGraphInput* inputs,
                           int32_t count);
  void (*drop_input)(void* context, void* caller, int32_t input);
  /* Since here a smaller struct_size is fine: what it leaves out is NULL. */
  /* After a warm_up or a record that failed: 1 where the pool is of no more use. It
   * is another one from now on, and the tree frees its recordings; storages that
   * are live keep their blocks. NULL: never. */
  int32_t (*take_another_pool)(void* context);
  /* The calls from here on are of another thread, which may use another stream:
   * has what was put on the device before them done before. 0; NULL: it is. */
  int32_t (*change_thread)(void* context);
  /* A step begins behind a backward while `storages` are in use. Gradients that
   * parameters keep in them, to be added to, get memory of their own; `address` of
   * each input is written anew. NULL: they are written over, as other outputs. */
  int32_t (*keep_gradients)(void* context, void* caller, void* const* storages,
                            int32_t count, KilnGraphInput* inputs,
                            int32_t input_count);
  /* Who allocated these blocks, in which nothing lies that the tree knows, and how:
   * calls `tell` with each line or more, for people. NULL: nothing is known. */
  void (*tell_origin)(void* context, const void* const* blocks, int32_t count,
                      void (*tell)(void* text, const char* part), void* text);
} KilnGraphHost;

/* `host` is copied; what it names outlives the tree. `pool_name`: for
 * messages. */
KilnStatus* kiln_graph_tree_new(const KilnGraphHost* host,
                                const char* pool_name, KilnGraphTree** tree);
void kiln_graph_tree_free(KilnGraphTree* tree); /* NULL is fine */

typedef enum KilnGraphMode {
  KILN_GRAPH_INFERENCE = 0,
  KILN_GRAPH_FORWARD = 1,
  KILN_GRAPH_BACKWARD = 2
} KilnGraphMode;

typedef struct KilnGraphFunction {
  size_t struct_size;
  KilnGraphMode mode;
  void* body;
  const int32_t* static_inputs; /* that keep their addresses */
  int32_t static_input_count;
  const int32_t* mutated_inputs;
  int32_t mutated_input_count;
  /* Tensors on the device that it closes over; `address` is not read. */
  const KilnGraphInput* constants;
  int32_t constant_count;
  /* For messages. NULL: none; an entry may be NULL. */
  const char* const* input_names;
  const char* const* input_traces;
  int32_t input_text_count;
  const char* const* output_traces;
  int32_t output_trace_count;
  const char* mutation_trace;
  /* Options of this function alone. */
  int32_t rerecord_limit; /* at one place; -1: none */
  int32_t moved_static_input_is_error;
  int32_t no_mutation_of_outputs;
  int32_t skip_warm_up;
  int32_t always_warm_up;
  int32_t check_pool; /* slow */
  int32_t skip_is_error;
  /* Since here a smaller struct_size is fine: what it leaves out is 0. */
  /* Bytes: a static input whose address is no multiple of it is copied, and may
   * not be written to. 0: all may be anywhere. */
  int32_t static_alignment;
} KilnGraphFunction;

/* Writes the function's number, counted from 0. INVALID_ARGUMENT: BAD_OPTION,
 * an array is missing or has a number below 0. */
KilnStatus* kiln_graph_tree_add(KilnGraphTree* tree,
                                const KilnGraphFunction* function,
                                int32_t* number);

typedef struct KilnGraphCall {
  size_t struct_size;
  int32_t function;
  KilnGraphInput* inputs; /* find_storages writes to them */
  int32_t count;
  void* caller;
  /* Of the process: calls of compiled programs so far, from outside of any, and
   * steps that the user has marked. */
  int64_t calls;
  int64_t marks;
  /* Since here a smaller struct_size is fine: what it leaves out is 0. */
  /* A number of the program's thread. While one holds outputs, calls of others run
   * without a graph. */
  int64_t thread;
} KilnGraphCall;

/* No call of the function comes any more. Its recordings go, with those behind
 * them, when the path of the last call has ended; `body` and constants may go at
 * once. INVALID_ARGUMENT: BAD_OPTION, there is no such function. */
KilnStatus* kiln_graph_tree_remove(KilnGraphTree* tree, int32_t number);

/* What the host failed with is INTERNAL, "the framework's NAME failed".
 * INVALID_ARGUMENT: BAD_OPTION, no such function; an input that the function
 * names is missing; or another number of inputs than an earlier call's that ran. */
KilnStatus* kiln_graph_tree_run(KilnGraphTree* tree, const KilnGraphCall* call);
/* Drops all recordings, after a restore where outputs of replays are live. A call
 * afterwards is FAILED_PRECONDITION. The host may call it from within a call of the
 * tree, at whose end the recordings go. */
void kiln_graph_tree_shutdown(KilnGraphTree* tree);
/* A backward ran that is none of the tree's. */
void kiln_graph_tree_backward_ran(KilnGraphTree* tree);

typedef enum KilnGraphState {
  KILN_GRAPH_NONE = 0,
  KILN_GRAPH_WARM_UP = 1,
  KILN_GRAPH_RECORDING = 2,
  KILN_GRAPH_EXECUTION = 3
} KilnGraphState;

typedef struct KilnGraphReport {
  size_t struct_size; /* set by the caller */
  KilnGraphState state;
  int32_t current; /* its id, of warm-ups negative; 0 without a node */
  int32_t has_current;
  int32_t forwards_pending;
  int64_t warm_ups;
  int64_t recordings;
  int64_t replays;
  int64_t plain_runs;
  int64_t checkpoints;
  int64_t skips;
  int64_t recorded_copied_inputs;
  int64_t records_without_match;
} KilnGraphReport;
KilnStatus* kiln_graph_tree_report(const KilnGraphTree* tree,
                                   KilnGraphReport* report);
/* What a program chooses for the graphs of a session; all 0: the defaults. */
typedef struct KilnGraphOptions {
  size_t struct_size;
  /* How often a graph is recorded anew at one place because a static input has
   * moved, before it is run without. 0: 128; -1: never. */
  int32_t rerecord_limit;
  /* When one graph has met more sizes than this, each recorded for itself, a
   * warning is among the notes. 0: 8; -1: none. */
  int32_t sizes_warn_limit;
  int32_t skip_dynamic; /* graphs with symbols are run without */
  int32_t no_mutation_of_results;
  /* That a graph must be run without is an error, once. */
  int32_t skip_is_error;
  int32_t check_pool; /* slow */
  /* `capture_size_count` times `capture_size_values` values of a graph's symbols,
   * in the order in which its inputs have them first: these sizes alone are
   * recorded. 0: all are. */
  const int64_t* capture_sizes;
  int32_t capture_size_count;
  int32_t capture_size_values;
  int64_t memory_limit_bytes; /* of all recordings together; 0: none */
} KilnGraphOptions;

/* The memory of a session's graphs, for people: who holds what, by plan and
 * step. Writes the text and a 0 behind it when `size` bytes hold both, else
 * nothing; gives its length. */
size_t kiln_session_graph_memory(const KilnSession* session, char* text,
                                 size_t size);

/* Of a session's graphs; zeros where there are none. */
KilnStatus* kiln_session_graph_report(const KilnSession* session,
                                      KilnGraphReport* report);

/* An output on a path; depth 0 is the root. */
typedef struct KilnGraphIndex {
  int32_t depth;
  int32_t output;
} KilnGraphIndex;

typedef struct KilnGraphNode {
  int32_t id;
  int32_t function;
  int32_t depth;
  const KilnGraphIndex* dead_before;
  int32_t dead_before_count;
  const KilnGraphIndex* dead_after;
  int32_t dead_after_count;
  const KilnGraphIndex* live_after;
  int32_t live_after_count;
  const int32_t* rules; /* a KilnGraphRuleKind for each output */
  int32_t output_count;
  const void* const* addresses; /* of inputs; NULL where each replay copies */
  int32_t input_count;
} KilnGraphNode;

/* Tells of each recording, parents before their children. */
void kiln_graph_tree_nodes(const KilnGraphTree* tree,
                           void (*tell)(void* context, const KilnGraphNode*),
                           void* context);

typedef enum KilnGraphNoteKind {
  KILN_GRAPH_SKIP = 0,
  KILN_GRAPH_WARNING = 1,
  KILN_GRAPH_RERECORD = 2,
  KILN_GRAPH_DROPPED = 3 /* all recordings, since the pool was lost */
} KilnGraphNoteKind;

/* Tells what has happened since the last time, and forgets it. */
void kiln_graph_tree_notes(KilnGraphTree* tree,
                           void (*tell)(void* context, KilnGraphNoteKind kind,
                                        int32_t function, const char* text),
                           void* context);
/* The same of a session's graphs. Function -1: what holds for the device, such
 * as that it captures nothing. */
void kiln_session_graph_notes(KilnSession* session,
                              void (*tell)(void* context,
                                           KilnGraphNoteKind kind,
                                           int32_t function, const char* text),
                              void* context);

#ifdef __cplusplus
}
#endif

#endif /* KILN_CLIENT_C_API_KILN_GRAPHS_H_ */
