#ifndef KILN_SERVER_TASK_LABEL_H_
#define KILN_SERVER_TASK_LABEL_H_

#include <string>

#include "server/compile_task.h"
#include "server/work_queue.h"

namespace kiln {

// What the worker pool and its logs call the work of a task. `caller`: for whom it is
// done.
inline WorkLabel LabelOf(const CompileTask& task,
                         const std::string& caller = "") {
  return {.key = task.key.digest,
          .graph_name = task.graph_name,
          .target = task.request().target(),
          .toolchain = task.toolchain,
          .cache_namespace = task.request().cache_namespace(),
          .caller = caller};
}

}  // namespace kiln

#endif  // KILN_SERVER_TASK_LABEL_H_
