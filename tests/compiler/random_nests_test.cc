// Random nests in every form of mapping that kernel_variant.h has, against the
// interpreter. A form is hit by as many nests as the test is told, and the test
// counts them: a form that no nest reaches fails it.
//
//   random_nests_test --test_arg=FIRST --test_arg=COUNT   other seeds, and so many
//                                                         nests a form
//   ... --test_arg=WORDS   only forms that have the words in their names

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/config/target.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/schedule/column_sums.h"
#include "compiler/schedule/kernel_variant.h"
#include "compiler/schedule/loop_order.h"
#include "compiler/schedule/nest_facts.h"
#include "compiler/schedule/one_pass_form.h"
#include "gtest/gtest.h"
#include "tests/support/nest_batch.h"
#include "tests/support/random_nest.h"

namespace kiln {
namespace {

uint64_t first_seed = 1;
int asked = 0;  // nests a form; 0: as many as the target is due
std::string words;

// A CPU's kernels are cheap. CUDA's are built twice where there is no GPU, by NVRTC
// and for the emulator.
constexpr int kNestsOfCpu = 200;
constexpr int kNestsOfGpu = 200;
constexpr int kNestsOfEmulator = 4;
// For chips that no machine of ours has: NVRTC must accept them.
constexpr int kNestsToBuild = 2;
// Seeds of each family that are tried for each nest that a form is due.
constexpr int kSeedsANest = 40;
constexpr size_t kBatch = 64;

int Threads() {
  return std::clamp<int>(std::thread::hardware_concurrency(), 2, 16);
}

struct Form {
  std::string name;  // begins with its VariantName
  std::function<bool(const MappedNest&)> holds;
};

template <typename V>
Form FormOf(std::string name, std::function<bool(const V&)> holds) {
  return {std::move(name), [holds](const MappedNest& nest) {
            const auto* v = std::get_if<V>(&nest.nest.kernel.variant);
            return nest.nest.parts.empty() && v != nullptr && holds(*v);
          }};
}

bool HasOp(const NestCase& nest, ScalarOp op) {
  const auto& body = nest.kernel.nest.body;
  return std::any_of(body.begin(), body.end(),
                     [&](const ScalarNode& node) { return node.op == op; });
}
bool IsOnePass(const MappedNest& nest) {
  const auto& body = nest.nest.kernel.nest.body;
  return std::any_of(body.begin(), body.end(), [](const ScalarNode& node) {
    return node.op == ScalarOp::kReduce && (node.reduce == ReduceOp::kSoftmax ||
                                            node.reduce == ReduceOp::kMoments);
  });
}
bool Scatters(const MappedNest& nest) {
  const auto& stores = nest.nest.kernel.nest.stores;
  return std::any_of(stores.begin(), stores.end(), [](const Store& store) {
    return store.mode == StoreMode::kAtomicAdd;
  });
}
bool IsCombined(const MappedNest& nest) { return !nest.nest.parts.empty(); }

// Whether a store moves by more than an element along the last axis.
bool StoresTurned(const MappedNest& nest) {
  const NestCase& c = nest.nest;
  const auto facts = FactsOf(c.kernel.nest, c.buffers, c.shapes);
  return facts.ok() &&
         std::any_of(facts->store_offset.begin(), facts->store_offset.end(),
                     [&](const SymExpr& offset) {
                       return MotionOf(offset, facts->num_outer - 1, *facts) ==
                              Motion::kStrided;
                     });
}

// `form`, of nests for which `more` holds as well.
Form Also(Form form, std::function<bool(const MappedNest&)> more) {
  return {std::move(form.name), [form, more](const MappedNest& nest) {
            return form.holds(nest) && more(nest);
          }};
}

// Scans, sorts and tallies.
std::vector<Form> CudaAlongRowForms() {
  return {
      FormOf<CudaScans>("cuda scans, several a warp",
                        [](const CudaScans& v) { return v.lanes < 32; }),
      FormOf<CudaScans>("cuda scans of several groups",
                        [](const CudaScans& v) { return v.unroll > 1; }),
      FormOf<CudaScans>("cuda scans, a warp each",
                        [](const CudaScans& v) { return v.lanes == 32; }),
      FormOf<CudaScans>("cuda scans, a block each",
                        [](const CudaScans& v) { return v.lanes > 32; }),
      FormOf<CudaScans>("cuda scans in parts",
                        [](const CudaScans& v) { return v.parts > 1; }),
      FormOf<CudaShortScans>("cuda short scans",
                             [](const CudaShortScans&) { return true; }),
      FormOf<CudaColumnScans>(
          "cuda column scans",
          [](const CudaColumnScans& v) { return v.parts == 1; }),
      FormOf<CudaColumnScans>(
          "cuda column scans in parts",
          [](const CudaColumnScans& v) { return v.parts > 1; }),
      FormOf<CudaSorts>("cuda sorts, a warp each",
                        [](const CudaSorts& v) { return v.threads == 32; }),
      FormOf<CudaSorts>("cuda sorts, a block each",
                        [](const CudaSorts& v) { return v.threads > 32; }),
      FormOf<CudaSelections>("cuda selections",
                             [](const CudaSelections&) { return true; }),
      FormOf<CudaTallies>("cuda tallies, a warp each",
                          [](const CudaTallies& v) { return v.threads == 32; }),
      FormOf<CudaTallies>("cuda tallies",
                          [](const CudaTallies& v) { return v.values > 32; }),
  };
}

std::vector<Form> CudaForms() {
  using P = CudaPoints;
  using R = CudaRows;
  using T = CudaTiles;
  const auto scans = [](const MappedNest& nest) {
    return HasOp(nest.nest, ScalarOp::kScan);
  };
  std::vector<Form> forms = {
      FormOf<P>("cuda points", [](const P& v) { return v.peel == 0; }),
      FormOf<P>("cuda points unrolled",
                [](const P& v) { return v.unroll > 1; }),
      FormOf<P>("cuda points peeled", [](const P& v) { return v.peel == 1; }),
      Also(FormOf<P>("cuda points that scatter", [](const P&) { return true; }),
           Scatters),
      {"cuda points combined", IsCombined},
      FormOf<T>("cuda tiles", [](const T& v) { return v.vector == 1; }),
      FormOf<T>("cuda tiles that are no squares",
                [](const T& v) { return v.edge != v.depth; }),
      FormOf<T>("cuda tiles of vectors",
                [](const T& v) { return v.vector > 1; }),
      FormOf<T>("cuda tiles peeled", [](const T& v) { return v.peel == 1; }),
      Also(FormOf<T>("cuda tiles peeled, turned on the way out",
                     [](const T& v) { return v.peel == 1; }),
           StoresTurned),
      FormOf<R>("cuda rows, several a warp",
                [](const R& v) { return v.lanes < 32 && v.stretch == 0; }),
      FormOf<R>("cuda rows, a warp each",
                [](const R& v) { return v.lanes == 32 && v.stretch == 0; }),
      FormOf<R>("cuda rows, a block each",
                [](const R& v) {
                  return v.lanes > 32 && v.stretch == 0 && v.cluster == 1;
                }),
      FormOf<R>("cuda rows read again",
                [](const R& v) { return v.held == 0 && v.parts == 1; }),
      FormOf<R>("cuda rows peeled", [](const R& v) { return v.peel == 1; }),
      FormOf<R>("cuda rows with costly values held",
                [](const R& v) { return v.hold_costly == 1; }),
      FormOf<R>("cuda rows in parts", [](const R& v) { return v.parts > 1; }),
      FormOf<R>("cuda rows of a cluster",
                [](const R& v) { return v.cluster > 1; }),
      FormOf<R>("cuda rows staged",
                [](const R& v) { return v.stages > 0 && v.stretch == 0; }),
      Also(FormOf<R>("cuda rows in one pass", [](const R&) { return true; }),
           IsOnePass),
      FormOf<R>("cuda rows with column sums",
                [](const R& v) { return v.stretch > 0 && v.stages == 0; }),
      FormOf<R>("cuda rows with column sums, staged",
                [](const R& v) { return v.stretch > 0 && v.stages > 0; }),
      FormOf<CudaColumns>("cuda columns",
                          [](const CudaColumns& v) { return v.parts == 1; }),
      FormOf<CudaColumns>("cuda columns in parts",
                          [](const CudaColumns& v) { return v.parts > 1; }),
      FormOf<CudaColumns>(
          "cuda columns peeled",
          [](const CudaColumns& v) { return v.peel == 1 && v.parts == 1; }),
      FormOf<CudaColumns>(
          "cuda columns peeled, in parts",
          [](const CudaColumns& v) { return v.peel == 1 && v.parts > 1; }),
      FormOf<CudaCounts>("cuda counts",
                         [](const CudaCounts& v) { return v.vector == 1; }),
      FormOf<CudaCounts>("cuda counts of vectors",
                         [](const CudaCounts& v) { return v.vector > 1; }),
      FormOf<CudaProducts>("cuda products",
                           [](const CudaProducts& v) { return v.strips == 1; }),
      FormOf<CudaProducts>("cuda products of several strips",
                           [](const CudaProducts& v) { return v.strips > 1; }),
      FormOf<CudaProducts>("cuda products of four tiles",
                           [](const CudaProducts& v) { return v.tiles == 4; }),
      FormOf<CudaSerial>("cuda serial", [](const CudaSerial&) { return true; }),
      Also(FormOf<CudaSerial>("cuda serial scans",
                              [](const CudaSerial&) { return true; }),
           scans),
  };
  for (Form& form : CudaAlongRowForms()) forms.push_back(std::move(form));
  return forms;
}

std::vector<Form> CpuForms() {
  const auto scans = [](const MappedNest& nest) {
    return HasOp(nest.nest, ScalarOp::kScan);
  };
  const auto rows = [](int accumulators) {
    return FormOf<CpuRows>(absl::StrCat("cpu rows by ", accumulators),
                           [accumulators](const CpuRows& v) {
                             return v.accumulators == accumulators;
                           });
  };
  return {
      FormOf<CpuPoints>("cpu points", [](const CpuPoints&) { return true; }),
      Also(FormOf<CpuPoints>("cpu points that scatter",
                             [](const CpuPoints&) { return true; }),
           Scatters),
      {"cpu points combined", IsCombined},
      FormOf<CpuTiles>("cpu tiles", [](const CpuTiles&) { return true; }),
      rows(1),
      rows(2),
      rows(4),
      FormOf<CpuScans>("cpu scans", [](const CpuScans&) { return true; }),
      FormOf<CpuColumns>("cpu columns", [](const CpuColumns&) { return true; }),
      Also(FormOf<CpuColumns>("cpu columns that scan",
                              [](const CpuColumns&) { return true; }),
           scans),
  };
}

// The nest in all variants that `target` may give it, and in its one-pass form.
std::vector<MappedNest> AllMapped(const RandomNest& random, uint64_t seed,
                                  const Target& target,
                                  const std::string& name) {
  std::vector<MappedNest> all;
  // On the CPU a library sorts, and no kernel sums columns beside its rows.
  if (target.kind == TargetKind::kCpu &&
      (HasOp(random.nest, ScalarOp::kSort) ||
       HasOp(random.nest, ScalarOp::kTally) ||
       StretchOf(random.nest.kernel.nest) > 0)) {
    return all;
  }
  if (!random.nest.parts.empty())
    return {{random.nest, name + " combined", random.tolerance}};
  NestCase first = random.nest.Flat();
  LoopNest& nest = first.kernel.nest;
  // As the schedule does, and as the nest was written.
  if (seed % 4 != 0)
    nest =
        MergeAxes(OrderAxes(nest, first.buffers, first.shapes), first.shapes);
  std::vector<NestCase> cases = {first};
  std::optional<LoopNest> form = OnePassForm(nest);
  if (target.kind == TargetKind::kCuda && form.has_value()) {
    nest = *std::move(form);
    cases.push_back(std::move(first));
  }
  for (const NestCase& c : cases) {
    for (const KernelVariant& variant : c.Candidates(target)) {
      all.push_back(
          {c.With(variant), name + " " + ToText(variant), random.tolerance});
    }
  }
  return all;
}

// Checks nests until `due` of them have been in each of `forms`.
void CheckForms(std::vector<Form> forms, const Target& target, int due) {
  std::erase_if(forms, [](const Form& form) {
    return !absl::StrContains(form.name, words);
  });
  std::map<std::string, int> hits;
  std::vector<MappedNest> batch;
  std::mt19937_64 random(first_seed);
  const auto check = [&] {
    CheckTogether(batch, target, Threads());
    batch.clear();
  };
  const auto done = [&] {
    return std::all_of(forms.begin(), forms.end(), [&](const Form& form) {
      return hits[form.name] >= due;
    });
  };
  const uint64_t last = first_seed + static_cast<uint64_t>(due) * kSeedsANest;
  for (uint64_t seed = first_seed; seed < last && !done(); ++seed) {
    for (const NestFamily family : kNestFamilies) {
      // A CPU's rows are mapped alike, however long they are.
      if (family == NestFamily::kLongRows && target.kind == TargetKind::kCpu)
        continue;
      const std::string name =
          absl::StrCat("seed ", seed, " family ", static_cast<int>(family));
      std::vector<MappedNest> all =
          AllMapped(MakeRandomNest(family, seed), seed, target, name);
      std::shuffle(all.begin(), all.end(), random);
      // One that several forms want counts for all of them.
      for (const Form& form : forms) {
        if (hits[form.name] >= due) continue;
        const auto chosen = std::find_if(all.begin(), all.end(), form.holds);
        if (chosen == all.end()) continue;
        for (const Form& other : forms)
          hits[other.name] += other.holds(*chosen);
        batch.push_back(std::move(*chosen));
        all.erase(chosen);
      }
      if (batch.size() < kBatch) continue;
      check();
      if (testing::Test::HasFailure() || testing::Test::IsSkipped()) return;
    }
  }
  check();
  for (const Form& form : forms) {
    EXPECT_GE(hits[form.name], due) << target.name << ": " << form.name;
    testing::Test::RecordProperty(form.name, hits[form.name]);
  }
}

int Due(int nests) { return asked > 0 ? asked : nests; }

TEST(RandomNests, EveryVariantHasAForm) {
  std::vector<Form> forms = CudaForms();
  for (Form& form : CpuForms()) forms.push_back(std::move(form));
  for (const absl::string_view variant : VariantNames()) {
    if (variant == VariantName(Unmapped{})) continue;
    // Of attention, which is no nest: codegen/flash_kernel_test has its forms.
    if (variant == VariantName(CudaFlash{})) continue;
    EXPECT_TRUE(std::any_of(forms.begin(), forms.end(), [&](const Form& form) {
      return absl::StartsWith(form.name, variant);
    })) << variant;
  }
}

TEST(RandomNests, AreRightOnTheCpuInEveryForm) {
  CheckForms(CpuForms(), *TargetFromName("x86-64-v3"), Due(kNestsOfCpu));
}

TEST(RandomNests, AreRightWithCudaInEveryForm) {
  CheckForms(CudaForms(), *TargetFromName("sm_90"),
             Due(GpuIsThere() ? kNestsOfGpu : kNestsOfEmulator));
}

// Clusters are of sm_90 and later.
TEST(RandomNests, AreBuiltForOtherChipsInEveryForm) {
  std::vector<Form> older;
  for (Form& form : CudaForms())
    if (!absl::EndsWith(form.name, "of a cluster"))
      older.push_back(std::move(form));
  CheckForms(older, *TargetFromName("sm_80"), Due(kNestsToBuild));
  CheckForms(CudaForms(), *TargetFromName("sm_100"), Due(kNestsToBuild));
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) kiln::first_seed = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) kiln::asked = std::atoi(argv[2]);
  if (argc > 3) kiln::words = argv[3];
  return RUN_ALL_TESTS();
}
