// Guards of a caller or of a stored entry, over values of a caller.

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "cache/guard_match.h"
#include "proto/guard.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace kiln {
namespace {

constexpr int64_t kValues[] = {0, 8, -1, INT64_MAX, INT64_MIN};

}  // namespace

std::vector<std::string> FuzzSeeds() {
  // s0 % 4 == 0.
  wire::GuardSet guards;
  wire::SymGuard& guard = *guards.add_symbols();
  guard.set_origin("pad: size of dim 0");
  const std::pair<wire::SymOp, int64_t> code[] = {{wire::SYM_OP_SYMBOL, 0},
                                                  {wire::SYM_OP_CONSTANT, 4},
                                                  {wire::SYM_OP_MOD, 0},
                                                  {wire::SYM_OP_CONSTANT, 0},
                                                  {wire::SYM_OP_EQ, 0}};
  for (const auto& [op, value] : code) {
    wire::SymInstruction& instruction = *guard.mutable_condition()->add_code();
    instruction.set_op(op);
    instruction.set_value(value);
  }
  wire::GuardSet two = guards;
  *two.add_symbols() = guards.symbols(0);
  return {guards.SerializeAsString(), two.SerializeAsString()};
}

}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln;
  wire::GuardSet guards;
  if (!guards.ParseFromArray(data, static_cast<int>(size))) return 0;
  const bool hold = GuardsHold(guards, kValues);
  const wire::GuardSet broken = GuardsBroken(guards, kValues);
  if (hold != broken.symbols().empty()) abort();
  if (hold != GuardPrograms(guards).Hold(kValues)) abort();
  static_cast<void>(GuardTexts(guards));
  return 0;
}
