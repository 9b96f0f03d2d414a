#include "compiler/codegen/write_kernels.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cuda_flash.h"
#include "compiler/codegen/kernel_names.h"
#include "compiler/codegen/write_combined.h"
#include "compiler/graph/refused_nodes.h"
#include "compiler/schedule/kernel_fingerprint.h"
#include "compiler/schedule/kernel_labels.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

struct Written {
  KernelSource source;
  std::vector<BufferId> buffers;  // in the fingerprint's order
};

// `written.source` with the buffers and random streams of an equal kernel. A
// scalar argument that is a number is a stream (nest_facts.cc); the others are
// symbols.
KernelSource WithArguments(const Written& written,
                           const KernelFingerprint& kernel) {
  KernelSource source = written.source;
  size_t next_stream = 0;
  for (KernelParam& param : source.params) {
    if (param.kind == KernelParam::Kind::kScalar &&
        param.scalar.is_constant() && next_stream < kernel.streams().size()) {
      param.scalar = kernel.streams()[next_stream++];
    }
    if (param.kind != KernelParam::Kind::kBuffer) continue;
    for (size_t i = 0; i < written.buffers.size(); ++i) {
      if (written.buffers[i] == param.buffer) {
        param.buffer = kernel.buffers()[i];
        break;
      }
    }
  }
  return source;
}

// Sources whose texts differ in nothing but the kernel's name get the first name:
// one text is built once.
class SharedTexts {
 public:
  void Share(KernelSource& source) {
    const auto [at, is_new] =
        first_.emplace(SymbolDigest(source.symbol),
                       std::make_pair(source.symbol, source.text));
    const auto& [symbol, text] = at->second;
    if (is_new || symbol == source.symbol) return;
    if (absl::StrReplaceAll(source.text, {{source.symbol, symbol}}) != text)
      return;
    source.symbol = symbol;
    source.text = text;
  }

 private:
  // By the digest of the text: symbol and text.
  absl::flat_hash_map<std::string, std::pair<std::string, std::string>> first_;
};

// The sources of a plan's kernels, equal ones written once.
class KernelsWriter {
 public:
  KernelsWriter(const KernelPlan& plan, const Target& target)
      : plan_(plan), target_(target) {}

  absl::StatusOr<KernelSource> Write(const CombinedKernel& all) {
    absl::StatusOr<KernelSource> source =
        WriteCombinedKernel(all, plan_.buffers, plan_.shapes, target_);
    if (!source.ok()) return Annotate(source.status(), all.label);
    return source;
  }

  absl::StatusOr<KernelSource> Write(const FlashKernel& kernel) {
    return WriteFlashKernel(kernel, plan_.buffers, plan_.shapes, target_);
  }

  absl::StatusOr<KernelSource> Write(const PlannedKernel& kernel) {
    KernelFingerprint fingerprint(kernel, plan_.buffers,
                                  FingerprintSizes::kKept);
    auto at = written_.find(fingerprint.bytes());
    if (at == written_.end()) {
      absl::StatusOr<KernelSource> source =
          WriteKernel(kernel, plan_.buffers, plan_.shapes, target_);
      if (!source.ok()) return Annotate(source.status(), kernel.label);
      at = written_
               .emplace(fingerprint.bytes(),
                        Written{*std::move(source), fingerprint.buffers()})
               .first;
    }
    return WithArguments(at->second, fingerprint);
  }

 private:
  const KernelPlan& plan_;
  const Target& target_;
  absl::flat_hash_map<std::string, Written> written_;
};

}  // namespace

absl::StatusOr<std::vector<KernelSource>> WriteKernels(const KernelPlan& plan,
                                                       const Target& target) {
  std::vector<KernelSource> sources;
  KernelsWriter writer(plan, target);
  SharedTexts texts;
  RefusedNodes refused;
  for (const PlannedStep& step : plan.steps) {
    if (!IsLaunch(step)) continue;
    const auto* all = std::get_if<CombinedKernel>(&step);
    const auto* flash = std::get_if<FlashKernel>(&step);
    absl::StatusOr<KernelSource> source =
        all != nullptr     ? writer.Write(*all)
        : flash != nullptr ? writer.Write(*flash)
                           : writer.Write(std::get<PlannedKernel>(step));
    if (source.ok()) {
      texts.Share(*source);
      sources.push_back(*std::move(source));
    } else if (!refused.Take(ClientNodesOf(step), source.status())) {
      return source.status();
    }
  }
  RETURN_IF_ERROR(refused.ToStatus());
  return sources;
}

}  // namespace kiln
