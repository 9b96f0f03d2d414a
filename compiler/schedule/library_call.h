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

// A library's part of a plan; what each call takes is the runtime's contract
// (runtime/extern_kernels/extern_kernel.h).
struct LibraryCall {
  std::string name;                    // "addmm"
  std::string origin;                  // operators it came from: "addmm+relu"
  std::vector<uint32_t> client_nodes;  // as a nest's
  std::vector<View> inputs;
  std::vector<View> outputs;
  std::vector<Attribute> attributes;
};

}  // namespace kiln

#endif  // KILN_COMPILER_SCHEDULE_LIBRARY_CALL_H_
