#include "tests/runtime/extern_kernels/call_runner.h"

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

}  // namespace

absl::Status RunCall(ExternCall call, const std::vector<Operand*>& inputs,
                     const std::vector<Operand*>& outputs, Device& device,
                     ExternLibrary& library) {
  OnDevice memory(device);
  std::vector<ExternOperand> in;
  std::vector<ExternOperand> out;
  for (Operand* operand : inputs) {
    in.push_back(operand->meta());
    RETURN_IF_ERROR(memory.Add(*operand));
  }
  for (Operand* operand : outputs) {
    out.push_back(operand->meta());
    RETURN_IF_ERROR(memory.Add(*operand));
  }
  call.inputs = in;
  call.outputs = out;
  ASSIGN_OR_RETURN(const ExternPart part, ReadExternCall(call));
  ASSIGN_OR_RETURN(const auto prepared, library.Prepare(part.problem));
  ExternBuffers buffers;
  for (int i = 0; i < kMaxExternOperands; ++i) {
    if (part.operand[i] >= 0)
      buffers.operand[i] = memory.address(part.operand[i]);
  }
  const int64_t bytes = prepared->workspace_bytes();
  if (bytes > 0) {
    ASSIGN_OR_RETURN(buffers.workspace,
                     device.allocator().Allocate(bytes, nullptr));
  }
  const absl::Status status = prepared->Run(buffers, nullptr);
  if (bytes > 0) device.allocator().Free(buffers.workspace, bytes, nullptr);
  RETURN_IF_ERROR(status);
  return memory.ReadBack();
}

}  // namespace kiln
