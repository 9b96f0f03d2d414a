#include "client/c_api/c_graph_report.h"

#include <cstring>
#include <string>

#include "client/c_api/c_handles.h"
#include "client/c_api/c_status.h"
#include "runtime/graph_tree/node.h"

namespace kiln {

void TellReport(const graph_tree::GraphTree& from, KilnGraphReport& report) {
  const auto& counters = from.counters();
  report.state = static_cast<KilnGraphState>(from.state());
  report.has_current = from.current() != nullptr;
  report.current = from.current() ? from.current()->id : 0;
  report.forwards_pending = from.forwards_pending();
  report.warm_ups = counters.warm_ups;
  report.recordings = counters.recordings;
  report.replays = counters.replays;
  report.plain_runs = counters.plain_runs;
  report.checkpoints = counters.checkpoints;
  report.skips = counters.skips;
  report.recorded_copied_inputs = counters.recorded_copied_inputs;
  report.records_without_match = counters.records_without_match;
}

void TellNotes(const std::vector<graph_tree::TreeNote>& notes, TellNote tell,
               void* context) {
  for (const graph_tree::TreeNote& note : notes) {
    tell(context, static_cast<KilnGraphNoteKind>(note.kind), note.function,
         note.text.c_str());
  }
}

}  // namespace kiln

void kiln_session_mark_step_begin(KilnSession* session) {
  session->session->MarkStepBegin();
}

KilnStatus* kiln_session_graph_report(const KilnSession* session,
                                      KilnGraphReport* report) {
  const absl::Status sound = kiln::CheckStruct("report", report);
  if (!sound.ok()) return kiln::StatusOf(sound);
  *report = {.struct_size = report->struct_size};
  if (session->session->graphs() == nullptr) return nullptr;
  session->session->graphs()->Look(
      [&](const kiln::graph_tree::GraphTree& tree) {
        kiln::TellReport(tree, *report);
      });
  return nullptr;
}

size_t kiln_session_graph_memory(const KilnSession* session, char* text,
                                 size_t size) {
  std::string memory;
  if (session->session->graphs() != nullptr) {
    memory = session->session->graphs()->MemoryText();
  }
  if (memory.size() < size) {
    std::memcpy(text, memory.c_str(), memory.size() + 1);
  }
  return memory.size();
}

void kiln_session_graph_notes(KilnSession* session, kiln::TellNote tell,
                              void* context) {
  if (session->session->graphs() == nullptr) return;
  kiln::TellNotes(session->session->graphs()->TakeNotes(), tell, context);
}
