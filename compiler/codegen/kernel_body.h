#ifndef KILN_COMPILER_CODEGEN_KERNEL_BODY_H_
#define KILN_COMPILER_CODEGEN_KERNEL_BODY_H_

// What the writers of both dialects share while they write one kernel: how
// each value, axis, symbol and buffer is called at this place of the text.
//
// Names are numbers in order of first use, so that equal kernels have equal
// text wherever they come from.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/c_writer.h"
#include "compiler/codegen/nest_facts.h"
#include "compiler/codegen/scalar_text.h"
#include "compiler/loop/loop_nest.h"
#include "compiler/sym/shape_env.h"

namespace kiln {

inline constexpr absl::string_view kSymbolPlaceholder = "@kernel@";

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

  const LoopNest& nest;
  const NestFacts& facts;
  const std::vector<Buffer>& buffers;
  const ShapeEnv& shapes;
  CWriter out;

  // How the value of `id` is read from now on.
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
  const char* index_type() const { return facts.index32 ? "int" : "long long"; }

  // Where the reduced point stands among all, as an expression.
  SymExpr ReducedPosition() const;

  // The factors of a power with a small constant exponent, as eager computes
  // it: x*x for 2. Empty when the general function is needed.
  std::string PowerText(const ScalarNode& node, const std::string& base,
                        const std::string& sqrt_of_base) const;

 private:
  std::vector<std::string> text_;
  int next_ = 0;
};

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_KERNEL_BODY_H_
