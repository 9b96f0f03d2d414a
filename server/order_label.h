#ifndef KILN_SERVER_ORDER_LABEL_H_
#define KILN_SERVER_ORDER_LABEL_H_

#include "server/compile_task.h"
#include "server/worker_pool.h"

namespace kiln {

// What goes with the requests that workers are asked for an order.
inline WorkLabel LabelOf(const CompileTask& order) {
  return {.key = order.key.digest,
          .graph_name = order.graph_name,
          .toolchain = order.toolchain};
}

}  // namespace kiln

#endif  // KILN_SERVER_ORDER_LABEL_H_
