#ifndef KILN_TESTS_BENCH_LOOKUP_CLIENTS_H_
#define KILN_TESTS_BENCH_LOOKUP_CLIENTS_H_

#include <functional>
#include <string>
#include <vector>

#include "proto/compile_service.grpc.pb.h"

namespace kiln {

// So many clients, each with a connection of its own, look for stored artifacts,
// one lookup after another, as long as `goes_on` says so of the lookups that a
// client has made. It is called by many threads.
//
// The microseconds of all lookups, in ascending order; empty when one was no hit.
std::vector<float> RunLookups(const std::string& socket, int clients,
                              const std::vector<wire::LookupRequest>& asked,
                              const std::function<bool(size_t made)>& goes_on);

// Of what RunLookups gave. `share`: 0.5 for the median.
float At(const std::vector<float>& sorted, double share);

// A line: p50, p99, p99.9.
void TellPercentiles(const char* name, const std::vector<float>& sorted);

}  // namespace kiln

#endif  // KILN_TESTS_BENCH_LOOKUP_CLIENTS_H_
