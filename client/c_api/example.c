/* Compiles relu(x + b) for any number of rows through a daemon, and runs it
 * for two of them.
 *
 *   example SOCKET            asks the daemon there
 *   example --local WORKER    compiles in a worker of its own
 */
#include <stdio.h>
#include <string.h>

#include "client/c_api/kiln.h"

enum { kColumns = 4, kMostRows = 3 };

static int Fail(KilnStatus* status) {
  fprintf(stderr, "example: %s: %s\n", kiln_status_reason(status),
          kiln_status_message(status));
  kiln_status_free(status);
  return 1;
}

static KilnGraph* BuildGraph(void) {
  KilnGraph* graph = kiln_graph_new("bias_relu", KILN_CPU);
  const int32_t rows = kiln_graph_symbol(graph, "N", kMostRows);
  const KilnSize wide[] = {{1, rows}, {kColumns, -1}};
  const KilnSpec matrix = {KILN_FLOAT32, 2, wide, NULL};
  const KilnSpec vector = {KILN_FLOAT32, 1, wide + 1, NULL};
  const uint32_t x = kiln_graph_input(graph, "x", &matrix);
  const uint32_t b = kiln_graph_input(graph, "b", &vector);
  const KilnArg both[] = {{.kind = KILN_ARG_VALUE, .integer = x},
                          {.kind = KILN_ARG_VALUE, .integer = b}};
  const uint32_t s =
      kiln_graph_node(graph, "aten.add.Tensor", both, 2, &matrix);
  const KilnArg sum = {.kind = KILN_ARG_VALUE, .integer = s};
  kiln_graph_output(
      graph, kiln_graph_node(graph, "aten.relu.default", &sum, 1, &matrix));
  return graph;
}

/* Runs for `rows` rows; 0 when every result is right. */
static int RunRows(KilnCallable* callable, int64_t rows) {
  static float x[kMostRows * kColumns];
  static float b[kColumns] = {-2, -1, 0, 1};
  for (int i = 0; i < kMostRows * kColumns; ++i) x[i] = (float)(i - 4);
  const int64_t sizes[] = {rows, kColumns};
  const int64_t strides[] = {kColumns, 1};
  const KilnValue inputs[] = {
      {KILN_TENSOR, KILN_FLOAT32, 2, x, sizes, strides, 0},
      {KILN_TENSOR, KILN_FLOAT32, 1, b, sizes + 1, strides + 1, 0}};
  KilnResults* results = NULL;
  KilnStatus* status = kiln_run(callable, inputs, 2, 0, NULL, &results);
  if (status != NULL) return Fail(status);
  const KilnValue y = kiln_results_get(results, 0);
  const float* got = y.data;
  int wrong =
      kiln_results_count(results) != 1 || y.rank != 2 || y.sizes[0] != rows;
  for (int i = 0; i < rows * kColumns && !wrong; ++i) {
    const float sum = x[i] + b[i % kColumns];
    wrong = got[i] != (sum > 0 ? sum : 0);
  }
  printf("%d rows: %s\n", (int)rows, wrong ? "WRONG" : "ok");
  kiln_results_free(results);
  return wrong;
}

int main(int argc, char** argv) {
  KilnSessionOptions options = {.struct_size = sizeof(options)};
  if (argc == 3 && strcmp(argv[1], "--local") == 0) {
    options.fallback = KILN_LOCAL_ONLY;
    options.worker_program = argv[2];
  } else if (argc == 2) {
    options.socket = argv[1];
  } else {
    fprintf(stderr, "usage: example SOCKET | example --local WORKER\n");
    return 2;
  }
  KilnSession* session = NULL;
  KilnStatus* status = kiln_session_open(&options, &session);
  if (status != NULL) return Fail(status);

  KilnGraph* graph = BuildGraph();
  KilnCallable* callable = NULL;
  status = kiln_compile(session, graph, &callable);
  kiln_graph_free(graph);
  if (status != NULL) {
    kiln_session_close(session);
    return Fail(status);
  }
  const int wrong = RunRows(callable, 2) + RunRows(callable, kMostRows);
  kiln_callable_free(callable);
  kiln_session_close(session);
  return wrong;
}
