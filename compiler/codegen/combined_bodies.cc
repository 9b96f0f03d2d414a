#include "compiler/codegen/combined_bodies.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/schedule/kernel_fingerprint.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

SymExpr FirstExtent(const LoopNest& nest) {
  return nest.axes.empty() ? SymExpr(1) : nest.axes[0].extent;
}

absl::StatusOr<CombinedBody> MakeBody(const PlannedKernel& part, bool index32,
                                      const std::vector<Buffer>& buffers,
                                      const ShapeEnv& shapes) {
  CombinedBody body;
  body.kernel = part;
  body.shapes = shapes;
  body.size = static_cast<uint32_t>(shapes.symbols.size());
  SymbolFacts size;
  size.name = "size";
  size.hint = shapes.Hint(FirstExtent(part.nest));
  size.range = {0, ValueRange::kMax};
  body.shapes.symbols.push_back(std::move(size));
  std::vector<Axis>& axes = body.kernel.nest.axes;
  if (!axes.empty()) axes[0].extent = SymExpr::Symbol(body.size);
  ASSIGN_OR_RETURN(body.facts, FactsOf(body.kernel.nest, buffers, body.shapes));
  // Known of every part, though not of a size without a bound.
  body.facts.index32 = index32;
  body.written.assign(buffers.size(), false);
  for (const Store& store : part.nest.stores) body.written[store.buffer] = true;
  return body;
}

}  // namespace

absl::StatusOr<std::vector<CombinedBody>> BodiesOf(
    const CombinedKernel& combined, const std::vector<Buffer>& buffers,
    const ShapeEnv& shapes) {
  struct Found {
    size_t body = 0;
    std::vector<BufferId> buffers;  // of the body, in the fingerprint's order
  };
  absl::flat_hash_map<std::string, Found> found;
  std::vector<CombinedBody> bodies;
  for (const PlannedKernel& part : combined.parts) {
    ASSIGN_OR_RETURN(const NestFacts facts,
                     FactsOf(part.nest, buffers, shapes));
    const KernelFingerprint fingerprint(part, buffers,
                                        FingerprintSizes::kFirstOpen);
    const auto [at, added] = found.emplace(
        absl::StrCat(fingerprint.bytes(), facts.index32 ? "i" : "l"),
        Found{bodies.size(), fingerprint.buffers()});
    if (added) {
      ASSIGN_OR_RETURN(CombinedBody body,
                       MakeBody(part, facts.index32, buffers, shapes));
      bodies.push_back(std::move(body));
    }
    CombinedBody& body = bodies[at->second.body];
    absl::flat_hash_map<BufferId, BufferId> own;
    for (size_t i = 0; i < fingerprint.buffers().size(); ++i) {
      own.emplace(at->second.buffers[i], fingerprint.buffers()[i]);
    }
    BodyCall call;
    call.first_extent = FirstExtent(part.nest);
    for (const KernelParam& param : body.facts.params) {
      if (param.kind == KernelParam::Kind::kBuffer) {
        call.buffers.push_back(own[param.buffer]);
      } else if (param.kind == KernelParam::Kind::kScalar) {
        call.scalars.push_back(param.scalar == SymExpr::Symbol(body.size)
                                   ? call.first_extent
                                   : param.scalar);
      }
    }
    body.calls.push_back(std::move(call));
  }
  return bodies;
}

}  // namespace kiln
