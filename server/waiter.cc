#include "server/waiter.h"

#include "proto/compile_service.pb.h"

namespace kiln {
namespace {

wire::Progress::Stage ToWire(JobStage stage) {
  switch (stage) {
    case JobStage::kQueued:
      return wire::Progress::STAGE_QUEUED;
    case JobStage::kElsewhere:
      return wire::Progress::STAGE_ELSEWHERE;
    case JobStage::kPlanning:
      return wire::Progress::STAGE_PLANNING;
    case JobStage::kBuilding:
      return wire::Progress::STAGE_BUILDING;
    case JobStage::kStoring:
      return wire::Progress::STAGE_STORING;
  }
  return wire::Progress::STAGE_UNSPECIFIED;
}

}  // namespace

SharedBytes EventOf(const JobProgress& progress) {
  wire::CompileEvent event;
  wire::Progress& wire = *event.mutable_progress();
  wire.set_stage(ToWire(progress.stage));
  wire.set_done(static_cast<uint32_t>(progress.done));
  wire.set_total(static_cast<uint32_t>(progress.total));
  wire.set_job(progress.job);
  wire.set_queue_position(static_cast<uint32_t>(progress.queue_position));
  wire.set_age_ms(absl::ToInt64Milliseconds(progress.age));
  return std::make_shared<const std::string>(event.SerializeAsString());
}

}  // namespace kiln
