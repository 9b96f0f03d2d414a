#include "compiler/codegen/prelude.h"
namespace kiln {
std::vector<PreludePart> CudaPrelude() { return {}; }
}  // namespace kiln
