// The CPU prelude's mathematics against long double, over the whole line of
// floats in steps; and its copy of the kernel ABI.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/prelude.h"
#include "compiler/toolchain/host_cc_toolchain.h"
#include "proto/kernel_abi.h"
#include "runtime/extern_kernels/half_float.h"
#include "runtime/shared_object.h"

namespace kiln {
namespace {

using Wide = long double;

struct Function {
  const char* name;
  Wide (*exact)(Wide);
};

const Function kFunctions[] = {
    {"exp", std::exp},     {"exp2", std::exp2}, {"expm1", std::expm1},
    {"log", std::log},     {"log2", std::log2}, {"log10", std::log10},
    {"log1p", std::log1p}, {"sin", std::sin},   {"cos", std::cos},
    {"tanh", std::tanh},   {"erf", std::erf},   {"sqrt", std::sqrt},
    {"floor", std::floor}, {"ceil", std::ceil}, {"rint", std::rint},
};

std::unique_ptr<Module> Build(const std::string& level,
                              const std::string& body) {
  const auto target = TargetFromName(level);
  EXPECT_TRUE(target.ok());
  const std::pair<absl::string_view, std::string> lanes[] = {
      {"$L", absl::StrCat(target->vector_bytes / 4)}};
  const std::string source = PreludeFor(body, CpuPrelude(), lanes) + body;
  auto toolchain = MakeHostCcToolchain({.scratch_dir = testing::TempDir()});
  const auto built = toolchain->Build(source, UnitFlags(*target));
  EXPECT_TRUE(built.ok()) << built.status();
  if (!built.ok()) return nullptr;
  auto module = LoadSharedObject(built->image);
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *std::move(module) : nullptr;
}

// The function `name` of type `F` (a pointer) in `module`.
template <class F>
F Find(const Module& module, const std::string& name) {
  const auto entry = module.FindKernel(name, /*shared_bytes=*/0);
  EXPECT_TRUE(entry.ok()) << entry.status();
  return entry.ok() ? reinterpret_cast<F>(*entry) : nullptr;
}

// Distance in units of the last place of the exact value's float.
double Ulps(float found, Wide exact) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(rounded)) return std::isnan(found) ? 0 : 1e9;
  if (found == rounded) return 0;
  if (std::isinf(found) || std::isnan(found) || std::isinf(rounded)) return 1e9;
  int exponent = 0;
  std::frexp(std::fabs(rounded), &exponent);
  const Wide unit = std::ldexp(Wide{1}, std::max(exponent - 24, -149));
  return static_cast<double>(std::fabs((found - exact) / unit));
}

std::vector<float> ManyFloats() {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               -1.0f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 9973) {
    const uint32_t word = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &word, sizeof(value));
    values.push_back(value);
  }
  while (values.size() % 16 != 0) values.push_back(1.0f);
  return values;
}

void CheckLevel(const std::string& level) {
  std::string body;
  for (const Function& f : kFunctions)
    absl::StrAppend(
        &body, "extern \"C\" __attribute__((visibility(\"default\"))) void f_",
        f.name, "(const float* x, float* y, long n) {\n",
        "  for (long i = 0; i < n; i += K_LANES)\n",
        "    k_store_f32(y + i, k_", f.name,
        "_f32(k_load_f32(x + i, K_LANES)), K_LANES);\n}\n");
  const auto module = Build(level, body);
  ASSERT_NE(module, nullptr);
  const std::vector<float> x = ManyFloats();
  std::vector<float> y(x.size());
  for (const Function& f : kFunctions) {
    const auto run = Find<void (*)(const float*, float*, long)>(
        *module, absl::StrCat("f_", f.name));
    ASSERT_NE(run, nullptr) << f.name;
    run(x.data(), y.data(), static_cast<long>(x.size()));
    double worst = 0;
    float worst_at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double ulps = Ulps(y[i], f.exact(x[i]));
      if (ulps <= worst) continue;
      worst = ulps;
      worst_at = x[i];
    }
    EXPECT_LE(worst, 2.0) << level << " " << f.name << "(" << worst_at << ")";
  }
}

TEST(CpuPrelude, MathematicsIsWithinTwoUnitsOfTheLastPlace) {
  CheckLevel("x86-64");
  if (__builtin_cpu_supports("avx2")) CheckLevel("x86-64-v3");
  if (__builtin_cpu_supports("avx512bw")) CheckLevel("x86-64-v4");
}

TEST(CpuPrelude, PowersAreWithinTwoUnitsAndKnowTheirSpecialCases) {
  const std::string body =
      "extern \"C\" __attribute__((visibility(\"default\"))) void f(const "
      "float* x, const float* e, float* y, long n) {\n  for (long i = 0; i < "
      "n; i += K_LANES) k_store_f32(y + i, k_pow_f32(k_load_f32(x + i, "
      "K_LANES), k_load_f32(e + i, K_LANES)), K_LANES);\n}\n";
  const auto module = Build("x86-64", body);
  ASSERT_NE(module, nullptr);
  std::vector<float> x, e;
  for (float base : {0.0f, -0.0f, 1.0f, -1.0f, 2.0f, -2.0f, 0.3f, 1e-40f, 3e38f,
                     INFINITY, -INFINITY, NAN, 1.0001f, 0.9999f, 17.5f, 1e-3f})
    for (float power = -40; power <= 40; power += 0.25f) {
      x.push_back(base);
      e.push_back(power);
    }
  while (x.size() % 16 != 0) {
    x.push_back(1);
    e.push_back(1);
  }
  std::vector<float> y(x.size());
  const auto power =
      Find<void (*)(const float*, const float*, float*, long)>(*module, "f");
  ASSERT_NE(power, nullptr);
  power(x.data(), e.data(), y.data(), static_cast<long>(x.size()));
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_LE(Ulps(y[i], std::pow(Wide{x[i]}, Wide{e[i]})), 2.0)
        << x[i] << " ^ " << e[i] << " gives " << y[i];
}

// Every half there and back, and floats between, at and beyond them.
void CheckHalves(const std::string& level) {
  const std::string body =
      "extern \"C\" __attribute__((visibility(\"default\"))) void f(const "
      "unsigned short* h, float* x, long n) {\n  for (long i = 0; i < n; i += "
      "K_LANES) k_store_f32(x + i, k_f16_to_f32(k_load_u16(h + i, K_LANES)), "
      "K_LANES);\n}\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) void g(const "
      "float* x, unsigned short* h, long n) {\n  for (long i = 0; i < n; i += "
      "K_LANES) k_store_u16(h + i, k_f32_to_f16(k_load_f32(x + i, K_LANES)), "
      "K_LANES);\n}\n";
  const auto module = Build(level, body);
  ASSERT_NE(module, nullptr);
  std::vector<uint16_t> halves(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i)
    halves[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(halves.size());
  const auto widen =
      Find<void (*)(const uint16_t*, float*, long)>(*module, "f");
  const auto round =
      Find<void (*)(const float*, uint16_t*, long)>(*module, "g");
  ASSERT_TRUE(widen != nullptr && round != nullptr);
  widen(halves.data(), wide.data(), static_cast<long>(halves.size()));
  for (size_t i = 0; i < halves.size(); ++i) {
    const float due = FloatOfFloat16(halves[i]);
    if (std::isnan(due)) {
      ASSERT_TRUE(std::isnan(wide[i])) << level << " " << i;
    } else {
      ASSERT_EQ(std::memcmp(&wide[i], &due, sizeof due), 0)
          << level << " " << i;
    }
  }
  const std::vector<float> floats = ManyFloats();
  std::vector<uint16_t> narrow(floats.size());
  round(floats.data(), narrow.data(), static_cast<long>(floats.size()));
  for (size_t i = 0; i < floats.size(); ++i) {
    if (std::isnan(floats[i])) {
      ASSERT_TRUE(std::isnan(FloatOfFloat16(narrow[i]))) << level;
    } else {
      ASSERT_EQ(narrow[i], Float16Of(floats[i])) << level << " " << floats[i];
    }
  }
}

TEST(CpuPrelude, HalvesAreConvertedExactlyAtEveryLevel) {
  CheckHalves("x86-64");
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"))
    CheckHalves("x86-64-v3");
  if (__builtin_cpu_supports("avx512bw")) CheckHalves("x86-64-v4");
}

// The generated declarations must be those of kernel_abi.h.
TEST(CpuPrelude, TheAbiIsTheOneOfKernelAbiH) {
  const std::string body =
      "extern \"C\" __attribute__((visibility(\"default\"))) long long f(const "
      "KilnCpuRuntime* r, void* to) {\n"
      "  r->parallel_for(r, 10, 3, [](void* c, long long b, long long e) { "
      "*(long long*)c += e - b; }, to);\n"
      "  return r->threads;\n}\n";
  const auto module = Build("x86-64", body);
  ASSERT_NE(module, nullptr);
  const KilnCpuRuntime runtime = {
      7, [](const KilnCpuRuntime* self, int64_t count, int64_t grain,
            void (*piece)(void*, int64_t, int64_t), void* context) {
        EXPECT_EQ(self->threads, 7);
        EXPECT_EQ(grain, 3);
        piece(context, 0, count);
      }};
  int64_t sum = 0;
  const auto call =
      Find<int64_t (*)(const KilnCpuRuntime*, void*)>(*module, "f");
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call(&runtime, &sum), 7);
  EXPECT_EQ(sum, 10);
}

}  // namespace
}  // namespace kiln
