#include "tests/runtime/extern_kernels/call_runner.h"

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// The copies of some operands on a device.
class OnDevice {
 public:
  explicit OnDevice(Device& device) : device_(device) {}
  ~OnDevice() {
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (addresses_[i] == nullptr) continue;
      device_.allocator().Free(addresses_[i] - Start(i), Start(i) + Bytes(i),
                               nullptr);
    }
  }

  absl::Status Add(Operand& operand) {
    operands_.push_back(&operand);
    addresses_.push_back(nullptr);
    const size_t i = operands_.size() - 1;
    if (Bytes(i) == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(void* const memory, device_.allocator().Allocate(
                                             Start(i) + Bytes(i), nullptr));
    addresses_.back() = static_cast<char*>(memory) + Start(i);
    return device_.Upload(operand.bytes().data(), addresses_.back(),
                          operand.bytes().size(), nullptr);
  }

  absl::Status ReadBack() {
    RETURN_IF_ERROR(device_.Synchronize(nullptr));
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (addresses_[i] == nullptr) continue;
      RETURN_IF_ERROR(device_.Download(
          addresses_[i], operands_[i]->bytes().data(), Bytes(i), nullptr));
    }
    return absl::OkStatus();
  }

  void* address(int i) const { return addresses_[i]; }

 private:
  int64_t Bytes(size_t i) const {
    return static_cast<int64_t>(operands_[i]->bytes().size());
  }

  int64_t Start(size_t i) const { return operands_[i]->start_bytes(); }

  Device& device_;
  std::vector<Operand*> operands_;
  std::vector<char*> addresses_;
};

enum class Operands { kAsTheyLie, kPrepared };

// With kPrepared the operand of the call's form is there in that form alone.
absl::Status RunOnce(const PreparedCall& call, const ExternPart& part,
                     Operands how, const std::vector<Operand*>& operands,
                     Device& device) {
  OnDevice memory(device);
  for (Operand* operand : operands) RETURN_IF_ERROR(memory.Add(*operand));
  ExternBuffers buffers;
  for (int i = 0; i < kMaxExternOperands; ++i) {
    if (part.operand[i] >= 0)
      buffers.operand[i] = memory.address(part.operand[i]);
  }
  const int64_t bytes = call.workspace_bytes();
  if (bytes > 0) {
    ASSIGN_OR_RETURN(buffers.workspace,
                     device.allocator().Allocate(bytes, nullptr));
  }
  absl::Status status;
  const OperandForm form = call.operand_form();
  if (how == Operands::kPrepared) {
    ASSIGN_OR_RETURN(buffers.prepared,
                     device.allocator().Allocate(form.bytes, nullptr));
    status = call.PrepareOperand(buffers, buffers.prepared);
    buffers.operand[form.operand] = nullptr;
  }
  if (status.ok()) status = call.Run(buffers, nullptr);
  if (bytes > 0) device.allocator().Free(buffers.workspace, bytes, nullptr);
  if (how == Operands::kPrepared)
    device.allocator().Free(buffers.prepared, form.bytes, nullptr);
  RETURN_IF_ERROR(status);
  return memory.ReadBack();
}

}  // namespace

absl::Status RunCall(ExternCall call, const std::vector<Operand*>& inputs,
                     const std::vector<Operand*>& outputs, Device& device,
                     ExternLibrary& library) {
  std::vector<ExternOperand> in;
  std::vector<ExternOperand> out;
  for (const Operand* operand : inputs) in.push_back(operand->meta());
  for (const Operand* operand : outputs) out.push_back(operand->meta());
  call.inputs = in;
  call.outputs = out;
  ASSIGN_OR_RETURN(const ExternPart part, ReadExternCall(call));
  ASSIGN_OR_RETURN(const auto prepared, library.Prepare(part.problem));
  std::vector<Operand> again;
  for (const Operand* operand : outputs) again.push_back(*operand);
  std::vector<Operand*> operands = inputs;
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  RETURN_IF_ERROR(
      RunOnce(*prepared, part, Operands::kAsTheyLie, operands, device));
  if (prepared->operand_form().operand < 0) return absl::OkStatus();
  for (size_t i = 0; i < again.size(); ++i) {
    operands[inputs.size() + i] = &again[i];
  }
  RETURN_IF_ERROR(
      RunOnce(*prepared, part, Operands::kPrepared, operands, device));
  for (size_t i = 0; i < again.size(); ++i) {
    if (again[i].bytes() == outputs[i]->bytes()) continue;
    return absl::InternalError(
        absl::StrCat(call.name, ": output ", i,
                     " is another where an operand is prepared beforehand"));
  }
  return absl::OkStatus();
}

}  // namespace kiln
