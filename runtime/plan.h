#ifndef KILN_RUNTIME_PLAN_H_
#define KILN_RUNTIME_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/base/dtype.h"
#include "proto/base/sym_eval.h"

// A LaunchPlan as the runtime holds it: checked, and with every expression
// interned, so that a call evaluates each expression once. read_plan.h makes
// one of the wire's; bind_launches.h makes it ready to run.

namespace kiln {

// Number of an expression in Plan::expressions.
using ExprId = int32_t;

struct PlanExpression {
  SymProgram program;
  std::vector<int32_t> symbols;  // that it reads, ascending; none: constant
};

struct PlanSymbol {
  enum class Source { kSize, kStride, kOffset, kScalar, kStep };
  std::string name;
  Source source = Source::kSize;
  int32_t input = 0;
  int32_t dim = 0;
  int64_t min = 0;  // inclusive
  int64_t max = 0;
};

// A strided window on a buffer; offset and strides in elements.
struct PlanView {
  int32_t buffer = 0;
  DType dtype = DType::kFloat32;
  std::vector<ExprId> sizes;
  std::vector<ExprId> strides;
  ExprId offset = 0;
};

struct PlanTensorInput {
  DType dtype = DType::kFloat32;
  std::vector<ExprId> sizes;
  std::vector<ExprId> strides;
  ExprId storage_offset = 0;
  int64_t alignment_bytes = 1;
};
struct PlanScalarInput {
  ExprId value = 0;
};
using PlanInput = std::variant<PlanTensorInput, PlanScalarInput>;

struct PlanBuffer {
  enum class Kind {
    kInput,     // starts at the first element of input `index`
    kOutput,    // allocated for the caller
    kArena,     // at `offset` bytes in the arena
    kOwn,       // allocated for the steps that touch it
    kConstant,  // number `index` of Plan::constants
    kCounters,  // zero before each launch and after it
  };
  Kind kind = Kind::kArena;
  int32_t index = 0;
  ExprId bytes = 0;
  ExprId offset = 0;
  std::string name;
};

struct PlanArg {
  enum class Kind { kBuffer, kScalar, kSeed, kSeedSlot };
  Kind kind = Kind::kBuffer;
  int32_t buffer = 0;
  ExprId value = 0;  // the offset in bytes, or the scalar
};

struct PlanLaunch {
  int32_t kernel = 0;
  std::vector<PlanArg> args;
  ExprId grid[3] = {0, 0, 0};
  uint32_t block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0;
  uint32_t cluster = 0;
  uint32_t blocks_per_multiprocessor = 0;  // 0: no bound
  bool programmatic_dependent_launch = false;
};

struct PlanAttribute {
  std::string name;
  std::variant<int64_t, double, std::string, std::vector<ExprId>> value;
};
struct PlanExtern {
  std::string name;
  std::vector<PlanView> inputs;
  std::vector<PlanView> outputs;
  std::vector<PlanAttribute> attributes;
  std::vector<uint32_t> client_nodes;  // of the request's graph
};
struct PlanCopy {
  PlanView from;
  PlanView to;
};
struct PlanFill {
  PlanView to;
  uint64_t bits = 0;
};
struct PlanAssert {
  ExprId condition = 0;
  std::string message;
};
struct PlanBindSymbol {
  int32_t symbol = 0;
  ExprId value = 0;
};
using PlanStep = std::variant<PlanLaunch, PlanExtern, PlanCopy, PlanFill,
                              PlanAssert, PlanBindSymbol>;

struct PlanNone {};
struct PlanInteger {
  ExprId value = 0;
};
using PlanOutput = std::variant<PlanNone, PlanView, PlanInteger>;

struct PlanKernel {
  std::string symbol;
  std::string label;
  int32_t module = 0;
};

// Bytes a graph carries with it: views on the artifact's own.
struct PlanConstant {
  absl::string_view bytes;
};

struct Plan {
  std::vector<PlanExpression> expressions;
  std::vector<PlanSymbol> symbols;
  std::vector<PlanInput> inputs;
  std::vector<PlanBuffer> buffers;
  std::vector<PlanKernel> kernels;
  std::vector<PlanConstant> constants;
  std::vector<PlanStep> steps;
  std::vector<PlanOutput> outputs;
  ExprId arena_bytes = 0;
};

// A condition over the plan's symbols that the artifact relies on.
struct PlanGuard {
  SymProgram condition;  // holds when not zero
  std::string origin;
};

}  // namespace kiln

#endif  // KILN_RUNTIME_PLAN_H_
