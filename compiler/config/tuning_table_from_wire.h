#ifndef KILN_COMPILER_CONFIG_TUNING_TABLE_FROM_WIRE_H_
#define KILN_COMPILER_CONFIG_TUNING_TABLE_FROM_WIRE_H_

#include "compiler/config/tuning_table.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/worker.pb.h"

namespace kiln {

// The last of a key counts.
TuningTable TuningTableFromWire(
    const google::protobuf::RepeatedPtrField<wire::TuningDecision>& decisions);

}  // namespace kiln

#endif  // KILN_COMPILER_CONFIG_TUNING_TABLE_FROM_WIRE_H_
