#ifndef KILN_CLIENT_C_API_C_GRAPH_REPORT_H_
#define KILN_CLIENT_C_API_C_GRAPH_REPORT_H_

#include <vector>

#include "client/c_api/kiln_graphs.h"
#include "runtime/graph_tree/graph_tree.h"
#include "runtime/graph_tree/tree_notes.h"

namespace kiln {

// Reports what a tree has done, in the types of kiln_graphs.h.
void TellReport(const graph_tree::GraphTree& from, KilnGraphReport& report);

using TellNote = void (*)(void* context, KilnGraphNoteKind kind,
                          int32_t function, const char* text);
void TellNotes(const std::vector<graph_tree::TreeNote>& notes, TellNote tell,
               void* context);

}  // namespace kiln

#endif  // KILN_CLIENT_C_API_C_GRAPH_REPORT_H_
