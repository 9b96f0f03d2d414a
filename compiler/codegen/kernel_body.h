#ifndef KILN_COMPILER_CODEGEN_KERNEL_BODY_H_
#define KILN_COMPILER_CODEGEN_KERNEL_BODY_H_

// The state that the writers of both dialects share while they write one kernel: the
// current names of all values, axes, symbols and buffers.
//
// Names are numbered in order of first use, so that equal kernels of different graphs
// have equal text.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/codegen/c_writer.h"
#include "compiler/codegen/scalar_text.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/schedule/nest_facts.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

inline constexpr absl::string_view kSymbolPlaceholder = "@kernel@";

// Writes the statements of one kernel. A dialect defines how a value is loaded, indexed
// and named; operations on values are written here, for all dialects.
class KernelBody {
 public:
  // All arguments must outlive this.
  KernelBody(const LoopNest& nest, const NestFacts& facts,
             const std::vector<Buffer>& buffers, const ShapeEnv& shapes)
      : nest(nest),
        facts(facts),
        buffers(buffers),
        shapes(shapes),
        text_(nest.body.size()) {}
  virtual ~KernelBody() = default;
  KernelBody(const KernelBody&) = delete;
  KernelBody& operator=(const KernelBody&) = delete;

  const LoopNest& nest;
  const NestFacts& facts;
  const std::vector<Buffer>& buffers;
  const ShapeEnv& shapes;
  CWriter out;

  // Writes the statement that computes `id`. The caller writes reductions and scans.
  // Errors: UNSUPPORTED_OP names an operation that its type does not support.
  absl::Status Node(ScalarId id);

  // The expression for the value of `id`, which SetText changes.
  const std::string& Text(ScalarId id) const { return text_[id]; }
  void SetText(ScalarId id, std::string text) { text_[id] = std::move(text); }
  // A name that is not used yet: "t0", "t1", ...
  std::string Fresh(absl::string_view letter) {
    return absl::StrCat(letter, next_++);
  }

  std::string BufferName(BufferId id) const {
    return absl::StrCat("p", facts.buffer_param[id]);
  }
  static std::string AxisName(uint32_t axis) { return absl::StrCat("i", axis); }
  std::string SymbolName(uint32_t symbol) const;
  // The argument that holds the stream of a kRandom node.
  std::string StreamName(ScalarId random) const;

  // An integer expression for `e`. `rename` returns the name of a variable, or an empty
  // string for its usual name.
  std::string Index(const SymExpr& e,
                    absl::FunctionRef<std::string(Var)> rename) const;
  std::string Index(const SymExpr& e) const {
    return Index(e, [](Var) { return std::string(); });
  }
  // The cast from an integer node's type to the index type; empty if none is needed.
  std::string IndirectCast(ScalarId id) const;
  const char* index_type() const { return facts.index32 ? "int" : "long long"; }

  // The number of the current reduced point.
  SymExpr ReducedPosition() const;

 protected:
  virtual Dialect DialectOf(ScalarId id) const = 0;
  // The value of `id` as an argument of `user`.
  virtual std::string Argument(ScalarId id, ScalarId user) const = 0;
  // A fused form of the operation: a sum and one of its terms, a product, with a single
  // rounding. Empty if the dialect does not fuse it.
  virtual std::string FusedText(ScalarId) const { return ""; }
  virtual std::string SqrtText(DType dtype, const std::string& of) const = 0;
  // The expression that a kSet store of `value` stores. If the buffer is an assertion, it
  // also checks the value; `told` is the argument through which a kernel reports failure.
  std::string StoredText(const Store& store, const std::string& value,
                         absl::string_view told) const;
  virtual absl::Status Load(ScalarId id) = 0;
  virtual absl::Status IndexValue(ScalarId id) = 0;
  // kCheckIndex and kWrapIndex.
  virtual void IndexCheck(ScalarId id) = 0;
  // Declares the value under a fresh name.
  virtual void Define(ScalarId id, const std::string& value) = 0;

 private:
  absl::Status Operation(ScalarId id);
  // A power with a small constant exponent as a product, as eager mode computes it: x*x
  // for 2. Empty if the general function is needed.
  std::string PowerText(const ScalarNode& node, const std::string& base,
                        const std::string& sqrt_of_base) const;

  std::vector<std::string> text_;
  int next_ = 0;
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_KERNEL_BODY_H_
