#ifndef KILN_COMPILER_SCHEDULE_LIBRARY_CALL_H_
#define KILN_COMPILER_SCHEDULE_LIBRARY_CALL_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "compiler/loop/buffer.h"
#include "compiler/sym/sym_expr.h"

namespace kiln {

struct Attribute {
  std::string name;
  std::variant<int64_t, double, std::string, std::vector<SymExpr>> value;
};

// A call of a library function. Which operands and attributes each function takes is
// described in runtime/extern_kernels/extern_kernel.h.
struct LibraryCall {
  std::string name;                    // "addmm"
  std::string origin;                  // operators it came from: "addmm+relu"
  std::vector<uint32_t> client_nodes;  // see LoopNest::client_nodes
  std::vector<View> inputs;
  std::vector<View> outputs;
  std::vector<Attribute> attributes;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_LIBRARY_CALL_H_
