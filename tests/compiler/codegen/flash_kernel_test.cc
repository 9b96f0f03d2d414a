// Attention by our own kernels: their units are what NVRTC takes for each target, and
// run, on a GPU or by the emulator, they give what the reference does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/write_kernels.h"
#include "compiler/config/target.h"
#include "compiler/graph/graph_text.h"
#include "compiler/schedule/flash_configs.h"
#include "compiler/schedule/kernel_plan_text.h"
#include "compiler/schedule/kernel_plan_verifier.h"
#include "compiler/toolchain/nvrtc_toolchain.h"
#include "tests/compiler/schedule/plan_check.h"
#include "tests/support/loop_interpreter.h"
#include "tests/support/nest_case.h"
#include "tests/support/nvrtc_of_tests.h"

namespace kiln {
namespace {

struct Shape {
  std::string name;
  int64_t b = 1, h = 2, x = 2, m = 40, n = 40, e = 32, v = 32;
  std::string dtype = "bf16";
  std::string causal = "";
  int64_t window = 0;
  std::string bias = "";  // its sizes; 1 where it is stretched
  std::string bias_dtype = "bf16";
  bool masks = false;  // the bias is -inf where its input is below 0
  double dropout = 0;
  std::string scale = "0.25";
  std::string m_symbol = "", n_symbol = "";  // sizes that are not known
  bool heads_inside = false;                 // memory is [b, m, h, e]
};

// A length as the graph's text has it, and a number of times it.
struct Length {
  int64_t size;
  std::string symbol;
  std::string text() const {
    return symbol.empty() ? absl::StrCat(size) : symbol;
  }
  std::string Times(int64_t count) const {
    return symbol.empty() ? absl::StrCat(count * size)
                          : absl::StrCat(count, "*", symbol);
  }
};

// Of [b, h, m, e], whose memory may be [b, m, h, e].
std::string Strides(const Shape& s, int64_t h, const Length& m, int64_t e) {
  return s.heads_inside
             ? absl::StrCat("[", m.Times(h * e), ", ", e, ", ", h * e, ", 1]")
             : absl::StrCat("[", m.Times(h * e), ", ", m.Times(e), ", ", e,
                            ", 1]");
}

std::string Heads(const Shape& s, absl::string_view name, int64_t h,
                  const Length& m, int64_t e) {
  return absl::StrCat("%", name, ": ", s.dtype, "[", s.b, ", ", h, ", ",
                      m.text(), ", ", e, "] strides ", Strides(s, h, m, e),
                      " align 16");
}

// A forward and its backward.
std::string GraphOf(const Shape& s) {
  const Length m = {s.m, s.m_symbol}, n = {s.n, s.n_symbol};
  std::vector<std::string> symbols;
  for (const Length& length : {m, n}) {
    if (length.symbol.empty() ||
        (!symbols.empty() && m.symbol == length.symbol))
      continue;
    symbols.push_back(
        absl::StrCat(length.symbol, " in [1, 4096] = ", length.size));
  }
  std::string inputs = absl::StrJoin(
      std::vector<std::string>{
          Heads(s, "q", s.h, m, s.e), Heads(s, "k", s.x, n, s.e),
          Heads(s, "w", s.x, n, s.v), Heads(s, "g", s.h, m, s.v), "%s: i64[]"},
      ", ");
  std::string text, bias = "none";
  if (!s.bias.empty()) {
    absl::StrAppend(&inputs, ", %z: ", s.bias_dtype, "[", s.bias, "]");
    if (s.masks) absl::StrAppend(&text, "  %r = relu(%z)\n  %l = log(%r)\n");
    absl::StrAppend(&text, "  %bias = expand(%", s.masks ? "l" : "z", ", [",
                    s.b, ", ", s.h, ", ", m.text(), ", ", n.text(), "])\n");
    bias = "%bias";
  }
  const std::string draw = s.dropout > 0 ? "%s, %s" : "none, none";
  const std::string numbers = absl::StrCat("\"", s.causal, "\", ", s.window,
                                           ", ", s.scale, ", ", s.dropout);
  absl::StrAppend(
      &text, "  %o, %a = prims.attention(%q, %k, %w, ", bias, ", ", draw, ", ",
      numbers, ", ", Strides(s, s.h, m, s.v), ")\n",
      "  %dq, %dk, %dv = prims.attention_backward(%g, %q, %k, %w, %o, %a, ",
      bias, ", ", draw, ", ", numbers, ", ", Strides(s, s.h, m, s.e), ", ",
      Strides(s, s.x, n, s.e), ", ", Strides(s, s.x, n, s.v), ")\n");
  return absl::StrCat("graph @attention(", absl::StrJoin(symbols, ", "),
                      ") on cuda(", inputs, ") -> (%o, %a, %dq, %dk, %dv) {\n",
                      text, "}\n");
}

std::vector<Shape> Shapes() {
  return {{.name = "plain", .m = 70, .n = 70},
          {.name = "causal, heads inside",
           .m = 70,
           .n = 70,
           .causal = "top_left",
           .heads_inside = true},
          {.name = "fewer queries than keys",
           .m = 33,
           .n = 70,
           .causal = "bottom_right"},
          {.name = "more queries than keys: some see nothing",
           .m = 70,
           .n = 33,
           .causal = "bottom_right"},
          {.name = "window",
           .h = 1,
           .x = 1,
           .m = 140,
           .n = 140,
           .causal = "top_left",
           .window = 20},
          {.name = "window without causal",
           .h = 1,
           .x = 1,
           .m = 70,
           .n = 70,
           .window = 9},
          {.name = "grouped", .b = 2, .h = 4, .x = 2, .causal = "top_left"},
          {.name = "f16", .n = 70, .dtype = "f16"},
          {.name = "one query", .m = 1, .n = 70},
          {.name = "one query and one key", .m = 1, .n = 1},
          {.name = "bias", .n = 47, .bias = "1, 2, 40, 47"},
          {.name = "bias with whole tiles of keys",
           .h = 1,
           .x = 1,
           .m = 20,
           .n = 130,
           .bias = "1, 1, 20, 130"},
          {.name = "bias of keys",
           .b = 2,
           .n = 47,
           .causal = "top_left",
           .bias = "2, 1, 1, 47",
           .bias_dtype = "f32"},
          {.name = "bias of one for each query", .bias = "1, 1, 40, 1"},
          {.name = "masks", .n = 47, .bias = "1, 2, 40, 47", .masks = true},
          {.name = "masks of whole rows",
           .bias = "1, 2, 40, 1",
           .bias_dtype = "f32",
           .masks = true,
           .dropout = 0.25},
          {.name = "dropout", .n = 48, .dropout = 0.25},
          {.name = "dropout, odd, in half",
           .m = 35,
           .n = 37,
           .dtype = "f16",
           .causal = "top_left",
           .bias_dtype = "f16",
           .dropout = 0.5},
          {.name = "a scale below 0", .scale = "-0.3"},
          {.name = "40", .e = 40, .v = 40},
          {.name = "two widths", .e = 48, .v = 24},
          {.name = "96", .h = 1, .x = 1, .e = 96, .v = 96},
          {.name = "128", .h = 1, .x = 1, .e = 128, .v = 128},
          {.name = "two wide widths", .h = 1, .x = 1, .e = 256, .v = 136},
          {.name = "256", .h = 1, .x = 1, .e = 256, .v = 256, .dropout = 0.25},
          {.name = "192, causal",
           .h = 1,
           .x = 1,
           .m = 70,
           .n = 70,
           .e = 192,
           .v = 192,
           .causal = "top_left"},
          {.name = "dropout of two tiles",
           .h = 1,
           .x = 1,
           .m = 140,
           .n = 70,
           .e = 64,
           .v = 64,
           .causal = "bottom_right",
           .dropout = 0.1},
          {.name = "symbols",
           .m = 30,
           .n = 50,
           .causal = "bottom_right",
           .dropout = 0.25,
           .m_symbol = "M",
           .n_symbol = "N"},
          {.name = "one symbol",
           .m = 50,
           .n = 50,
           .causal = "top_left",
           .bias = "1, 1, N, N",
           .m_symbol = "N",
           .n_symbol = "N"}};
}

KernelPlan PlanFor(const std::string& graph, absl::string_view target,
                   const TuningTable& tuning = {}) {
  PassEnv env{*TargetFromName(target), {}};
  env.options.artifact.own_attention = true;
  env.tuning = tuning;
  return PlanWith(graph, env);
}

std::vector<const FlashKernel*> FlashKernelsIn(const KernelPlan& plan) {
  std::vector<const FlashKernel*> kernels;
  for (const PlannedStep& step : plan.steps)
    if (const auto* kernel = std::get_if<FlashKernel>(&step))
      kernels.push_back(kernel);
  return kernels;
}

// Memory of a plan's buffers, with the inputs in their places.
std::vector<std::vector<char>> MemoryOf(const KernelPlan& plan,
                                        const std::vector<RefValue>& inputs) {
  std::vector<std::vector<char>> memory;
  for (const Buffer& buffer : plan.buffers) {
    memory.emplace_back(
        plan.shapes.Hint(Product(buffer.sizes)) * SizeInBytes(buffer.dtype),
        '\xff');  // NaN, so that nothing passes that nobody wrote
    if (buffer.kind != BufferKind::kInput) continue;
    const std::string& bytes =
        *std::get<RefTensor>(inputs.at(buffer.index)).storage;
    absl::c_copy(bytes, memory.back().begin());
  }
  return memory;
}

RefTensor OutputOf(const KernelPlan& plan, const ProgramOutput& output,
                   const std::vector<std::vector<char>>& memory) {
  const View& view = std::get<View>(output.what);
  RefTensor tensor;
  tensor.dtype = view.dtype;
  for (const SymExpr& e : view.sizes)
    tensor.sizes.push_back(plan.shapes.Hint(e));
  for (const SymExpr& e : view.strides)
    tensor.strides.push_back(plan.shapes.Hint(e));
  tensor.offset = plan.shapes.Hint(view.offset);
  const std::vector<char>& bytes = memory[view.buffer];
  tensor.storage = std::make_shared<std::string>(bytes.begin(), bytes.end());
  return tensor;
}

// How far `found` is from `due`, relative to the length of `due`; that of nothing
// is 1. Infinite elements that are equal are no distance.
double Distance(const RefTensor& found, const RefTensor& due) {
  const Elements x = Load(found), y = Load(due);
  double apart = 0, length = 0;
  for (int64_t k = 0; k < y.count(); ++k) {
    if (std::isinf(y.F(k)) && x.F(k) == y.F(k)) continue;
    apart += (x.F(k) - y.F(k)) * (x.F(k) - y.F(k));
    length += y.F(k) * y.F(k);
  }
  return std::sqrt(apart / (length > 0 ? length : 1));
}

class FlashKernels : public testing::Test {
 protected:
  static Toolchain& Nvrtc() {
    static Toolchain* const nvrtc =
        MakeNvrtcToolchain({.library_dirs = NvrtcFoldersOfTests()}).release();
    return *nvrtc;
  }
  static void SetUpTestSuite() {
    found_ = new absl::Status(Nvrtc().Version().status());
  }

  // Memory of the plan's buffers after all of its kernels.
  std::vector<std::vector<char>> Run(const KernelPlan& plan,
                                     const Target& target,
                                     const std::vector<RefValue>& inputs) {
    auto memory = MemoryOf(plan, inputs);
    const auto sources = WriteKernels(plan, target);
    EXPECT_TRUE(sources.ok()) << sources.status();
    if (!sources.ok()) return memory;
    const std::vector<UnitSource> units = GroupIntoUnits(*sources, target);
    for (const KernelSource& source : *sources) {
      LaunchOnCuda(
          ImageOf(units, source.symbol), source,
          [&](const SymExpr& e) { return plan.shapes.Hint(e); }, memory,
          source.symbol);
    }
    return memory;
  }

  // Of a forward and its backward: what the plan means, and then what its kernels do,
  // is what the reference gives.
  void ExpectAsReference(const std::string& text, const Target& target,
                         const TuningTable& tuning = {}) {
    const auto graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << graph.status() << text;
    const std::vector<RefValue> inputs = RandomInputs(*graph);
    const auto due = RunReference(*graph, inputs);
    ASSERT_TRUE(due.ok()) << due.status();
    const KernelPlan plan = PlanFor(text, target.name, tuning);
    ASSERT_EQ(FlashKernelsIn(plan).size(), 3u) << ToText(plan);
    const auto meant = RunPlan(plan, {}, inputs);
    ASSERT_TRUE(meant.ok()) << meant.status();
    const auto memory = Run(plan, target, inputs);
    for (size_t k = 0; k < plan.outputs.size(); ++k) {
      SCOPED_TRACE(absl::StrCat("output ", k));
      const auto& expected = std::get<RefTensor>(due->outputs[k]);
      EXPECT_LT(Distance(std::get<RefTensor>(meant->outputs[k]), expected),
                4e-3);
      // Weights and results are rounded to 8 bits once each, the reference's results
      // too; logarithms are not rounded.
      const double near = expected.dtype == DType::kFloat32 ? 1e-5 : 4e-3;
      EXPECT_LT(Distance(OutputOf(plan, plan.outputs[k], memory), expected),
                near);
    }
  }

  // What runs of the unit that defines `symbol`.
  std::string ImageOf(const std::vector<UnitSource>& units,
                      const std::string& symbol) {
    for (const UnitSource& unit : units) {
      if (!absl::c_linear_search(unit.symbols, symbol)) continue;
      // The emulator makes its own of the source; a GPU here is of sm_90.
      absl::StatusOr<BuiltObject> built = BuiltObject();
      const Target gpu = *TargetFromName("sm_90");
      if (GpuIsThere()) built = Nvrtc().Build(unit.source, UnitFlags(gpu));
      if (built.ok()) built = BuildToRun(*built, unit.source);
      EXPECT_TRUE(built.ok()) << built.status() << unit.source;
      return built.ok() ? built->image : "";
    }
    ADD_FAILURE() << "no unit has " << symbol;
    return "";
  }

  static inline const absl::Status* found_ = nullptr;
};

// Of a plan for a forward and its backward, one word replaced.
std::string PlanTextWith(absl::string_view from, absl::string_view to) {
  return absl::StrReplaceAll(
      ToText(PlanFor(GraphOf({.causal = "top_left"}), "sm_90")), {{from, to}});
}

TEST(FlashPlans, AreReadBack) {
  const std::string text = PlanTextWith("own", "own");
  const auto plan = ParseKernelPlan(text);
  ASSERT_TRUE(plan.ok()) << plan.status() << text;
  EXPECT_EQ(ToText(*plan), text);
  EXPECT_EQ(VerifyKernelPlan(*plan), absl::OkStatus());
}

TEST(FlashPlans, EachInvariantIsLookedAt) {
  const auto verified = [](absl::string_view from, absl::string_view to) {
    const auto plan = ParseKernelPlan(PlanTextWith(from, to));
    return std::string(
        (plan.ok() ? VerifyKernelPlan(*plan) : plan.status()).message());
  };
  const std::string replaced[][3] = {
      {"columns 64", "columns 24", "K13 at kiln_tem_fused_attention_0: found"},
      {"warps 4", "warps 0", "K13 at kiln_tem_fused_attention_0: found"},
      {"warps 4", "warps 3", "K13 at kiln_tem_fused_attention_backward_1"},
      {"sides 1", "sides 3", "K13 at kiln_tem_fused_attention_0: found"},
      {"sides 1", "sides 2", "K13 at kiln_tem_fused_attention_0: found"},
      {"held 0", "held 2", "K13 at kiln_tem_fused_attention_0: found"},
      {" part query_grad sums sums10", " part query_grad", "and no sums"},
      {"part forward", "part query_grad", "K13 at kiln_tem_fused_attention_0"},
      {"part key_grads", "part all", "expected forward, query_grad or"},
      {"fused_attention_0", "fused_attention_backward_1", "K4"},
      {"scale 0.25", "window -1", "A4 at attention"}};
  for (const auto& [from, to, due] : replaced)
    EXPECT_THAT(verified(from, to), testing::HasSubstr(due)) << to;
}

// First: the emulator's library has the same name, and is not opened yet.
TEST_F(FlashKernels, AreWhatNvrtcTakesForEveryTarget) {
  KILN_LEAVE_WITHOUT_NVRTC(*found_);
  for (const absl::string_view name : {"sm_80", "sm_90a", "sm_100"}) {
    const Target target = *TargetFromName(name);
    for (const Shape& s : Shapes()) {
      if (s.name != "dropout" && s.name != "bias of keys" && s.name != "256")
        continue;
      SCOPED_TRACE(absl::StrCat(name, ": ", s.name));
      const auto sources = WriteKernels(PlanFor(GraphOf(s), name), target);
      ASSERT_TRUE(sources.ok()) << sources.status();
      for (const KernelSource& source : *sources) {
        // The driver takes no more of a block.
        EXPECT_LE(source.shared_bytes,
                  target.shared_bytes_per_multiprocessor - kSharedOfBlock);
      }
      for (const UnitSource& unit : GroupIntoUnits(*sources, target)) {
        const auto built = Nvrtc().Build(unit.source, UnitFlags(target));
        EXPECT_TRUE(built.ok()) << built.status() << unit.source;
      }
    }
  }
}

TEST_F(FlashKernels, GiveWhatTheReferenceDoes) {
  for (const Shape& s : Shapes()) {
    SCOPED_TRACE(s.name);
    ExpectAsReference(GraphOf(s), *TargetFromName("sm_90"));
  }
}

TEST_F(FlashKernels, GiveTheSameInEachMappingThatADecisionMayName) {
  const Target target = *TargetFromName("sm_90");
  Shape s = {.h = 1, .x = 1, .causal = "top_left", .dropout = 0.25};
  for (const int64_t width : {64, 192}) {
    s.e = s.v = width;
    s.m = s.n = width == 64 ? 140 : 40;
    const std::string text = GraphOf(s);
    const KernelPlan before = PlanFor(text, target.name);
    size_t mappings = 2;
    for (size_t number = 1; number < mappings; ++number) {
      SCOPED_TRACE(absl::StrCat(width, ", mapping ", number));
      TuningTable tuning;
      std::vector<CudaFlash> decided;
      for (const FlashKernel* kernel : FlashKernelsIn(before)) {
        const std::vector<CudaFlash> all = FlashConfigs(*kernel, target);
        mappings = std::max(mappings, all.size());
        decided.push_back(all[number % all.size()]);
        tuning[TuningKey(*kernel, before.shapes, target)] =
            ToText(KernelVariant(decided.back()));
      }
      const KernelPlan plan = PlanFor(text, target.name, tuning);
      EXPECT_EQ(VerifyKernelPlan(plan), absl::OkStatus());
      const auto kernels = FlashKernelsIn(plan);
      ASSERT_EQ(kernels.size(), decided.size());
      for (size_t k = 0; k < kernels.size(); ++k)
        EXPECT_EQ(kernels[k]->variant, KernelVariant(decided[k]));
      ExpectAsReference(text, target, tuning);
    }
    EXPECT_GT(mappings, 3u);
  }
}

// A forward and its backward by PyTorch's operators for CUDA, whose logarithms have
// forms of their own.
TEST_F(FlashKernels, GiveWhatPyTorchsOperatorsDo) {
  for (
      const absl::string_view rest :
      {R"(%k: bf16[2, 2, 33, 32] align 16) -> (%o, %l, %r, %u, %a, %b, %c) {
             %o, %l, %1, %2, %3, %4, %r, %u, %8 = _scaled_dot_product_flash_attention(%q, %k, %k, 0.0, true, scale=0.25)
             %a, %b, %c = _scaled_dot_product_flash_attention_backward(%g, %q, %k, %k, %o, %l, none, none, 33, 33, 0.0, true, %r, %u, scale=0.25)
           })",
       R"(%k: bf16[2, 4, 40, 32] align 16, %z: bf16[2, 1, 1, 40]) -> (%o, %l, %r, %u, %a, %b, %c) {
             %e = expand(%z, [2, 4, 33, 40])
             %o, %l, %r, %u = _scaled_dot_product_efficient_attention(%q, %k, %k, %e, true, 0.0, true)
             %a, %b, %c, %d = _scaled_dot_product_efficient_attention_backward(%g, %q, %k, %k, %e, %o, %l, %r, %u, 0.0, [true, true, true, false], true)
           })",
       // What they draw again is what the step drew.
       R"(%k: bf16[2, 2, 33, 32] align 16, %r: i64[2], %u: i64[]) -> (%o, %l, %a, %b, %c) {
             %s = select.int(%r, 0, 0)
             %o, %l = prims.attention(%q, %k, %k, none, %s, %u, "top_left", 0, 0.25, 0.5, [4224, 1056, 32, 1])
             %a, %b, %c = _scaled_dot_product_flash_attention_backward(%g, %q, %k, %k, %o, %l, none, none, 33, 33, 0.5, true, %r, %u, scale=0.25)
           })",
       R"(%k: bf16[2, 4, 40, 32] align 16, %r: i64[], %u: i64[]) -> (%o, %l, %a, %b, %c) {
             %o, %l = prims.attention(%q, %k, %k, none, %r, %u, "", 0, 0.25, 0.5, [4224, 1056, 32, 1])
             %p = constant_pad_nd(%l, [0, 31], inf)
             %a, %b, %c, %d = _scaled_dot_product_efficient_attention_backward(%g, %q, %k, %k, none, %o, %p, %r, %u, 0.5, [true, true, true, false], false, scale=0.25)
           })"}) {
    ExpectAsReference(
        absl::StrCat("graph @g() on cuda(%q: bf16[2, 4, 33, 32] align 16, "
                     "%g: bf16[2, 4, 33, 32] align 16, ",
                     rest),
        *TargetFromName("sm_80"));
  }
}

// Its sum with a score is a multiple of 64, and so are errors of its logarithm.
TEST_F(FlashKernels, GiveFiniteGradientsUnderAHugeBias) {
  const Target target = *TargetFromName("sm_90");
  const std::string text = absl::StrReplaceAll(
      GraphOf({.bias = "1, 1, 40, 1", .bias_dtype = "f32"}),
      {{"expand(%z", "expand(%y"},
       {"  %bias", "  %y = mul.Scalar(%z, -1000000000.0)\n  %bias"}});
  const auto graph = ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status() << text;
  const KernelPlan plan = PlanFor(text, target.name);
  const auto memory = Run(plan, target, RandomInputs(*graph));
  for (const ProgramOutput& output : plan.outputs) {
    const RefTensor found = OutputOf(plan, output, memory);
    const Elements x = Load(found);
    for (int64_t k = 0; k < x.count(); ++k)
      ASSERT_TRUE(std::isfinite(x.F(k))) << k;
  }
}

}  // namespace
}  // namespace kiln
