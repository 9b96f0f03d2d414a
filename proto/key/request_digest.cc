#include "proto/key/request_digest.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/assemble.h"
#include "proto/base/status.h"
#include "proto/base/sym_eval.h"
#include "proto/key/cache_namespace.h"

namespace kiln {
namespace {

// What compiler/config/target.cc knows: a name that passes here compiles there.
constexpr absl::string_view kCudaArchs[] = {
    "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a"};
constexpr absl::string_view kCpuLevels[] = {"x86-64", "x86-64-v2", "x86-64-v3",
                                            "x86-64-v4"};

template <typename Names>
bool Contains(const Names& names, absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

absl::Status BadTarget(absl::string_view what) {
  return MakeError(ErrorReason::kBadTarget, absl::StrCat("target: ", what));
}

absl::Status CheckTarget(const wire::Target& target) {
  switch (target.kind_case()) {
    case wire::Target::kCuda:
      if (Contains(kCudaArchs, target.cuda().arch())) return absl::OkStatus();
      return BadTarget(absl::StrCat(
          "architecture \"", target.cuda().arch().substr(0, 40),
          "\" is not known; one of ", absl::StrJoin(kCudaArchs, ", ")));
    case wire::Target::kCpu:
      if (Contains(kCpuLevels, target.cpu().level())) return absl::OkStatus();
      return BadTarget(absl::StrCat(
          "level \"", target.cpu().level().substr(0, 40),
          "\" is not known; one of ", absl::StrJoin(kCpuLevels, ", ")));
    case wire::Target::KIND_NOT_SET:
      return BadTarget("not set");
  }
  return BadTarget("of an unknown kind");
}

absl::Status CheckFieldsKnown(const google::protobuf::Message& message,
                              absl::string_view where) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return absl::OkStatus();
  return MakeError(ErrorReason::kBadOption,
                   absl::StrCat(where, ": field ", unknown.field(0).number(),
                                " is not known to this build"));
}

// The conditions over canonical symbols, serialized and in order. One over a
// symbol that the graph does not use says nothing of the graph and is left out.
absl::StatusOr<std::set<std::string>> MapConditions(const wire::GuardSet& given,
                                                    const SymbolMap& symbols) {
  const int64_t count = symbols.canonical_of.size();
  std::set<std::string> mapped;
  for (const wire::SymGuard& guard : given.symbols()) {
    const auto program = SymProgram::FromWire(guard.condition(), count);
    RETURN_IF_ERROR(Annotate(program.status(), "guard"));
    wire::SymExpr condition = program->ToWire();
    bool used = true;
    for (wire::SymInstruction& in : *condition.mutable_code()) {
      if (in.op() != wire::SYM_OP_SYMBOL) continue;
      const int number = symbols.canonical_of[in.value()];
      used = used && number >= 0;
      in.set_value(number);
    }
    if (used) mapped.insert(DeterministicBytes(condition));
  }
  return mapped;
}

absl::StatusOr<wire::GuardSet> CanonicalGuards(const wire::GuardSet& given,
                                               const SymbolMap& symbols) {
  ASSIGN_OR_RETURN(const std::set<std::string> conditions,
                   MapConditions(given, symbols));
  wire::GuardSet guards;
  for (const std::string& condition : conditions) {
    // Our own bytes of a moment ago.
    guards.add_symbols()->mutable_condition()->ParseFromString(condition);
  }
  return guards;
}

Digest DigestOfStrings(
    const google::protobuf::RepeatedPtrField<std::string>& strings) {
  Sha256 sha;
  for (const std::string& text : strings) sha.AddField(text);
  return sha.Finish();
}

KeyPart HintsPart(const wire::Graph& graph) {
  Sha256 sha;
  std::vector<std::string> texts;
  for (int i = 0; i < graph.symbols_size(); ++i) {
    sha.AddNumber(graph.symbols(i).hint());
    texts.push_back(absl::StrCat("s", i, "=", graph.symbols(i).hint()));
  }
  return {"hints", sha.Finish(), absl::StrJoin(texts, " ")};
}

std::string GraphText(const wire::Graph& graph) {
  return absl::StrCat(graph.nodes_size(), " nodes, ", graph.inputs_size(),
                      " inputs, ", graph.outputs_size(), " outputs, ",
                      graph.symbols_size(), " symbols");
}

// What orders of one job have in common beside the key.
Digest JobOf(const CanonicalRequest& canonical) {
  Sha256 sha;
  sha.Add(canonical.digest.total.bytes())
      .AddField(DeterministicBytes(canonical.request.forbidden()));
  if (canonical.decided_by == DecideBy::kSizes) {
    sha.AddNumber(static_cast<int64_t>(canonical.values.size()));
    for (const int64_t value : canonical.values) sha.AddNumber(value);
  }
  return sha.Finish();
}

RequestDigest DigestOf(const wire::CompileRequest& request,
                       const Digest& graph_digest) {
  const wire::ArtifactOptions& options = request.options().artifact();
  RequestDigest digest;
  digest.parts = {
      {"schema", Sha256Of(kKeySchema), std::string(kKeySchema)},
      {"namespace", Sha256Of(request.cache_namespace()),
       request.cache_namespace()},
      {"graph", graph_digest, GraphText(request.graph())},
      {"target", Sha256Of(DeterministicBytes(request.target())),
       TargetText(request.target())},
      {"options", Sha256Of(DeterministicBytes(options)),
       options.ShortDebugString()},
      {"plugins", DigestOfStrings(request.plugins()),
       absl::StrJoin(request.plugins(), " ")},
      HintsPart(request.graph()),
  };
  for (KeyPart& part : digest.parts) {
    if (part.text.size() > kMaxPartText) part.text.resize(kMaxPartText);
  }
  digest.total = TotalOf(digest.parts);
  return digest;
}

}  // namespace

Digest TotalOf(absl::Span<const KeyPart> parts) {
  Sha256 total;
  for (const KeyPart& part : parts)
    total.AddField(part.name).Add(part.digest.bytes());
  return total.Finish();
}

std::string TargetText(const wire::Target& target) {
  if (target.has_cuda()) return absl::StrCat("cuda ", target.cuda().arch());
  if (!target.has_cpu()) return "none";
  return absl::StrCat("cpu ", target.cpu().level(),
                      target.cpu().avx512_bf16() ? " avx512_bf16" : "",
                      target.cpu().amx_bf16() ? " amx_bf16" : "");
}

bool IsTargetWord(absl::string_view word) {
  constexpr absl::string_view kOthers[] = {"cuda", "cpu", "avx512_bf16",
                                           "amx_bf16"};
  return Contains(kOthers, word) || Contains(kCudaArchs, word) ||
         Contains(kCpuLevels, word);
}

absl::StatusOr<CanonicalRequest> CanonicalizeRequest(
    const wire::CompileRequest& given, DecideBy decide_by) {
  RETURN_IF_ERROR(CheckTarget(given.target()));
  RETURN_IF_ERROR(CheckFieldsKnown(given, "request"));
  RETURN_IF_ERROR(CheckFieldsKnown(given.options(), "options"));
  RETURN_IF_ERROR(
      CheckFieldsKnown(given.options().artifact(), "artifact options"));
  if (given.plugins_size() > 0) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     absl::StrCat("plugin ", given.plugins(0).substr(0, 60),
                                  ": no plugin is known to this build"));
  }
  const std::string& tag = given.options().artifact().cache_tag();
  if (tag.size() > kMaxCacheTag) {
    return MakeError(ErrorReason::kBadOption,
                     absl::StrCat("cache_tag: found ", tag.size(),
                                  " bytes, expected at most ", kMaxCacheTag));
  }
  ASSIGN_OR_RETURN(const std::string cache_namespace,
                   NamespaceNamed(given.cache_namespace()));
  ASSIGN_OR_RETURN(CanonicalGraph graph, CanonicalizeGraph(given.graph()));
  CanonicalRequest canonical;
  for (const int original : graph.symbols.original_of) {
    canonical.values.push_back(given.graph().symbols(original).hint());
  }
  wire::CompileRequest& request = canonical.request;
  *request.mutable_target() = given.target();
  *request.mutable_options() = given.options();
  RETURN_IF_ERROR(CanonicalGuards(given.assumptions(), graph.symbols).status());
  ASSIGN_OR_RETURN(*request.mutable_forbidden(),
                   CanonicalGuards(given.forbidden(), graph.symbols));
  request.set_cache_namespace(cache_namespace);
  request.set_driver_cuda_version(given.driver_cuda_version());
  *request.mutable_graph() = std::move(graph.graph);
  // The key is by classes, whatever decides.
  canonical.digest = DigestOf(request, graph.digest);
  if (request.forbidden().symbols_size() > 0) decide_by = DecideBy::kSizes;
  canonical.decided_by = decide_by;
  for (int i = 0;
       decide_by == DecideBy::kSizes && i < request.graph().symbols_size();
       ++i) {
    request.mutable_graph()->mutable_symbols(i)->set_hint(canonical.values[i]);
  }
  canonical.digest.job = JobOf(canonical);
  canonical.symbols = std::move(graph.symbols);
  return canonical;
}

}  // namespace kiln
