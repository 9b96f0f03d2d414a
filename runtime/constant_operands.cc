#include "runtime/constant_operands.h"

#include <mutex>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "proto/base/dtype.h"
#include "proto/base/status.h"

namespace kiln {

// A copy that the first to ask for it makes, while others who ask wait.
struct ConstantOperands::Entry {
  std::once_flag once;
  absl::Status status;
  std::unique_ptr<const Copy> copy;  // null: see status
};

ConstantOperands::Copy::Copy(std::shared_ptr<Device> device, void* data,
                             int64_t bytes)
    : device_(std::move(device)), data_(data), bytes_(bytes) {}

ConstantOperands::Copy::~Copy() {
  device_->allocator().Free(data_, bytes_, nullptr);
}

ConstantOperands::ConstantOperands(const LoadedArtifact& artifact,
                                   absl::Span<const InputView> fixed)
    : device_(artifact.shared_device()),
      plan_(artifact.view().plan()),
      bases_(plan_.buffers.size(), nullptr) {
  const size_t callers = plan_.inputs.size() - fixed.size();
  for (size_t i = 0; i < bases_.size(); ++i) {
    const PlanBuffer& buffer = plan_.buffers[i];
    const auto index = static_cast<size_t>(buffer.index);
    if (buffer.kind == PlanBuffer::Kind::kConstant) {
      bases_[i] = static_cast<char*>(artifact.constants()[index]);
    } else if (buffer.kind == PlanBuffer::Kind::kInput && index >= callers) {
      bases_[i] = static_cast<char*>(fixed[index - callers].data);
    }
  }
  for (const PlanOutput& output : plan_.outputs) {
    const auto* view = std::get_if<PlanView>(&output);
    if (view != nullptr) bases_[view->buffer] = nullptr;
  }
}

ConstantOperands::~ConstantOperands() = default;

std::shared_ptr<ConstantOperands::Entry> ConstantOperands::EntryOf(Key key) {
  MutexLock lock(&mu_);
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    if (auto entry = found->second.lock()) return entry;
  }
  std::erase_if(entries_, [](const auto& e) { return e.second.expired(); });
  auto entry = std::make_shared<Entry>();
  entries_[std::move(key)] = entry;
  return entry;
}

absl::StatusOr<std::shared_ptr<const ConstantOperands::Copy>>
ConstantOperands::CopyFor(const PreparedCall& call, const OperandForm& form,
                          const PlanView& view) {
  const SymProgram& start = plan_.expressions[view.offset].program;
  if (bases_[view.buffer] == nullptr || !start.is_constant()) return nullptr;
  const int64_t offset = start.Evaluate({}) * SizeInBytes(view.dtype);
  const std::shared_ptr<Entry> entry =
      EntryOf({view.buffer, offset, form.layout});
  std::call_once(entry->once, [&] {
    absl::StatusOr<void*> memory =
        device_->allocator().Allocate(form.bytes, nullptr);
    if (!memory.ok()) {
      entry->status = memory.status();
      return;
    }
    auto copy = std::make_unique<const Copy>(device_, *memory, form.bytes);
    ExternBuffers buffers;
    buffers.operand[form.operand] = bases_[view.buffer] + offset;
    entry->status = call.PrepareOperand(buffers, copy->data());
    if (entry->status.ok()) entry->copy = std::move(copy);
  });
  RETURN_IF_ERROR(entry->status);
  return std::shared_ptr<const Copy>(entry, entry->copy.get());
}

}  // namespace kiln
