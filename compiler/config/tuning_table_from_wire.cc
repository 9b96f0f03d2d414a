#include "compiler/config/tuning_table_from_wire.h"

namespace kiln {

TuningTable TuningTableFromWire(
    const google::protobuf::RepeatedPtrField<wire::TuningDecision>& decisions) {
  TuningTable table;
  for (const wire::TuningDecision& decision : decisions)
    table[decision.key()] = decision.choice();
  return table;
}

}  // namespace kiln
