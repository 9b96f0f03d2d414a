#include "proto/base/assemble.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

void AddExprs(const google::protobuf::RepeatedPtrField<wire::SymExpr>& exprs,
              Sha256& sha) {
  sha.AddNumber(exprs.size());
  for (const wire::SymExpr& expr : exprs) {
    sha.AddField(DeterministicBytes(expr));
  }
}

void AddView(const wire::LaunchPlan& plan, const wire::BufferView& view,
             Sha256& sha) {
  // Buffer numbers are the plan's own business; an aliased input is not.
  const bool known = view.buffer() < static_cast<uint32_t>(plan.buffers_size());
  const bool alias = known && plan.buffers(view.buffer()).kind() ==
                                  wire::PlanBuffer::KIND_INPUT;
  sha.AddNumber(alias ? 1 + plan.buffers(view.buffer()).index() : 0);
  sha.AddNumber(view.dtype());
  AddExprs(view.sizes(), sha);
  AddExprs(view.strides(), sha);
  // Where in an input an alias begins is seen by its caller; where in its own
  // allocation a result begins is not.
  if (alias) sha.AddField(DeterministicBytes(view.offset()));
}

absl::Status CheckUnits(const wire::CompilePlan& compiled) {
  for (const wire::TranslationUnit& unit : compiled.units()) {
    if (unit.digest() != UnitDigest(unit).bytes()) {
      return absl::InternalError(absl::StrCat(
          "unit of ", unit.symbols_size() > 0 ? unit.symbols(0) : "no kernel",
          ": its digest is not that of its text"));
    }
  }
  for (const wire::PlanKernel& kernel : compiled.plan().kernels()) {
    if (kernel.module() >= static_cast<uint32_t>(compiled.units_size())) {
      return absl::InternalError(absl::StrCat("kernel ", kernel.label(),
                                              ": module ", kernel.module(),
                                              " of ", compiled.units_size()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string DeterministicBytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

Digest UnitDigest(const wire::TranslationUnit& unit) {
  Sha256 sha;
  sha.AddField("kiln unit 1").AddNumber(unit.language());
  sha.AddField(unit.source()).AddNumber(unit.flags_size());
  for (const std::string& flag : unit.flags()) sha.AddField(flag);
  return sha.Finish();
}

Digest InterfaceDigest(const wire::LaunchPlan& plan) {
  Sha256 sha;
  sha.AddField("kiln interface 2").AddNumber(plan.symbols_size());
  for (const wire::PlanSymbol& symbol : plan.symbols()) {
    sha.AddField(DeterministicBytes(symbol.source()));
  }
  sha.AddNumber(plan.inputs_size());
  for (const wire::PlanInput& input : plan.inputs()) {
    sha.AddNumber(input.kind_case()).AddNumber(input.mutated() ? 1 : 0);
    sha.AddNumber(input.alignment_bytes());
    sha.AddField(input.has_tensor() ? DeterministicBytes(input.tensor())
                                    : DeterministicBytes(input.scalar()));
  }
  sha.AddNumber(plan.outputs_size());
  for (const wire::PlanOutput& output : plan.outputs()) {
    sha.AddNumber(output.kind_case());
    if (output.has_view()) AddView(plan, output.view(), sha);
    if (output.has_sym()) sha.AddField(DeterministicBytes(output.sym()));
  }
  return sha.Finish();
}

absl::StatusOr<std::string> AssembleArtifact(
    wire::CompilePlan compiled, std::vector<wire::ObjectCode> objects,
    const wire::Target& target, const Digest& compile_key,
    const Digest& request_digest) {
  RETURN_IF_ERROR(CheckUnits(compiled));
  std::map<std::string, wire::ObjectCode*> by_unit;
  for (wire::ObjectCode& object : objects) {
    if (!by_unit.emplace(object.unit_digest(), &object).second) {
      return absl::InternalError(absl::StrCat(
          "artifact ", compile_key.ShortHex(), ": two objects for one unit"));
    }
  }
  wire::Artifact artifact;
  artifact.set_format_version(kArtifactFormatVersion);
  artifact.set_compile_key(compile_key.ToBytes());
  artifact.set_request_digest(request_digest.ToBytes());
  *artifact.mutable_target() = target;
  artifact.set_least_driver_cuda_version(LeastDriver(objects));
  artifact.set_interface_digest(InterfaceDigest(compiled.plan()).ToBytes());
  for (const wire::TranslationUnit& unit : compiled.units()) {
    const auto found = by_unit.find(unit.digest());
    if (found == by_unit.end()) {
      return absl::InternalError(
          absl::StrCat("artifact ", compile_key.ShortHex(), ": unit ",
                       Sha256Of(unit.digest()).ShortHex(),
                       " has no object, or is there twice"));
    }
    wire::ObjectCode* placed = artifact.add_objects();
    placed->set_unit_digest(unit.digest());
    placed->set_image(std::move(*found->second->mutable_image()));
    by_unit.erase(found);
  }
  if (!by_unit.empty()) {
    return absl::InternalError(
        absl::StrCat("artifact ", compile_key.ShortHex(), ": ", by_unit.size(),
                     " objects that do not belong to a unit of the plan"));
  }
  *artifact.mutable_compiled() = std::move(compiled);
  return DeterministicBytes(artifact);
}

uint32_t LeastDriver(const std::vector<wire::ObjectCode>& objects) {
  uint32_t least = 0;
  for (const wire::ObjectCode& object : objects)
    least = std::max(least, object.least_driver_cuda_version());
  return least;
}

}  // namespace kiln
