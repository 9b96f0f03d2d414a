#ifndef KILN_COMPILER_CODEGEN_KERNEL_BODY_H_
#define KILN_COMPILER_CODEGEN_KERNEL_BODY_H_

// The state that the writers of both dialects share while they write one kernel:
// the current names of all values, axes, symbols and buffers.
//
// Names are numbers in order of first use, so that equal kernels have equal
// text wherever they come from.

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

// The statements of one kernel. A dialect says how it reads, indexes and names
// a value; what is done with values is written here, for all of them.
class KernelBody {
 public:
  // All must outlive this.
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
  // UNSUPPORTED_OP names an operation that its type does not support.
  absl::Status Node(ScalarId id);

  // Sets the expression that stands for the value of `id` from now on.
  const std::string& Text(ScalarId id) const { return text_[id]; }
  void SetText(ScalarId id, std::string text) { text_[id] = std::move(text); }
  // A name that is not in use yet: "t0", "t1", ...
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

  // `e` as an integer. `rename` may give another name to a variable; empty:
  // the usual one.
  std::string Index(const SymExpr& e,
                    absl::FunctionRef<std::string(Var)> rename) const;
  std::string Index(const SymExpr& e) const {
    return Index(e, [](Var) { return std::string(); });
  }
  // The cast that takes an integer node to the index type; empty if none is needed.
  std::string IndirectCast(ScalarId id) const;
  const char* index_type() const { return facts.index32 ? "int" : "long long"; }

  // The number of the current reduced point, as an expression.
  SymExpr ReducedPosition() const;

 protected:
  virtual Dialect DialectOf(ScalarId id) const = 0;
  // The value of `id` as an argument of `user`.
  virtual std::string Argument(ScalarId id, ScalarId user) const = 0;
  // Another way to write the operation that the dialect prefers: a sum with one of
  // its terms, a product, in one rounding; empty: as it stands.
  virtual std::string FusedText(ScalarId) const { return ""; }
  virtual std::string SqrtText(DType dtype, const std::string& of) const = 0;
  // What a kSet store of `value` stores, which an assertion looks at; `told` is
  // whom the kernel tells of one that does not hold.
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
  // The factors of a power with a small constant exponent, as eager computes
  // it: x*x for 2. Empty when the general function is needed.
  std::string PowerText(const ScalarNode& node, const std::string& base,
                        const std::string& sqrt_of_base) const;

  std::vector<std::string> text_;
  int next_ = 0;
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_KERNEL_BODY_H_
