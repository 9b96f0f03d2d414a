/* Compiles and runs relu and ends at once, everything still alive: what programs
 * do that do not clean up.
 *
 * usage: exit_with_callable SOCKET */
#include <stdio.h>

#include "client/c_api/kiln.h"

static int Failed(const KilnStatus* status) {
  if (status == NULL) return 0;
  fprintf(stderr, "%s\n", kiln_status_message(status));
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const KilnSessionOptions options = {
      .struct_size = sizeof(options), .socket = argv[1], .threads = 2};
  KilnSession* session = NULL;
  if (Failed(kiln_session_open(&options, &session))) return 1;

  KilnGraph* graph = kiln_graph_new("relu", KILN_CPU);
  const KilnSize size = {4, -1};
  const KilnSpec spec = {KILN_FLOAT32, 1, &size, NULL};
  const KilnArg x = {.kind = KILN_ARG_VALUE,
                     .integer = kiln_graph_input(graph, "x", &spec)};
  kiln_graph_output(graph,
                    kiln_graph_node(graph, "aten.relu.default", &x, 1, &spec));
  KilnCallable* callable = NULL;
  if (Failed(kiln_compile(session, graph, &callable))) return 1;

  float data[4] = {-1, 0, 1, 2};
  const int64_t sizes[] = {4};
  const int64_t strides[] = {1};
  const KilnValue in = {.kind = KILN_TENSOR,
                        .dtype = KILN_FLOAT32,
                        .rank = 1,
                        .data = data,
                        .sizes = sizes,
                        .strides = strides};
  KilnResults* results = NULL;
  if (Failed(kiln_run(callable, &in, 1, 0, NULL, &results))) return 1;
  const KilnValue out = kiln_results_get(results, 0);
  return ((const float*)out.data)[3] == 2 ? 0 : 1;
}
