// A request at the daemon's door, and its graph as a worker imports it.

#include "compiler/graph/graph_import.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/base/count_fields.h"
#include "proto/compile_service.pb.h"
#include "proto/corpus/corpus_case.h"
#include "proto/key/request_digest.h"
#include "tests/fuzz/fuzz_target.h"

namespace kiln {
namespace {

// As the daemon counts before it decodes, and less, for speed.
constexpr int64_t kMostFields = 20'000;

}  // namespace

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> seeds;
  for (const char* name : {"mean", "tril_indices", "native_layer_norm"}) {
    const auto cases =
        ReadCorpusFile(absl::StrCat("tests/corpus/ops/", name, ".jsonl"));
    if (!cases.ok()) continue;
    for (const CorpusCase& one : *cases) {
      if (!one.readable.ok()) continue;
      wire::CompileRequest request;
      *request.mutable_graph() = one.graph;
      request.mutable_target()->mutable_cpu()->set_level("x86-64-v3");
      request.set_cache_namespace("team-a");
      seeds.push_back(request.SerializeAsString());
    }
  }
  return seeds;
}

}  // namespace kiln

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kiln;
  google::protobuf::io::ArrayInputStream bytes(data, static_cast<int>(size));
  const auto fields =
      CountFields(bytes, *wire::CompileRequest::descriptor(), kMostFields);
  wire::CompileRequest request;
  const bool parsed = request.ParseFromArray(data, static_cast<int>(size));
  // What cannot be counted cannot be decoded.
  if (parsed && !fields.has_value()) abort();
  if (!parsed || *fields > kMostFields) return 0;
  const auto canonical = CanonicalizeRequest(request);
  static_cast<void>(ImportGraph(request.graph(), request.forbidden()).status());
  if (!canonical.ok()) return 0;
  static_cast<void>(ImportGraph(canonical->request.graph()).status());
  // Canonical form is its own.
  const auto again = CanonicalizeRequest(canonical->request);
  if (!again.ok() || !(again->digest.total == canonical->digest.total)) abort();
  return 0;
}
