// Results of //bench:communication as JSON and as a table.
#ifndef DPIPE_BENCH_TRANSPORTS_COMMUNICATION_REPORT_H_
#define DPIPE_BENCH_TRANSPORTS_COMMUNICATION_REPORT_H_

#include <string>
#include <vector>

#include "bench/transports/communication_ranks.h"
#include "nlohmann/json.hpp"

namespace dpipe::bench {

nlohmann::ordered_json CommunicationToJson(const CommunicationTimes& measured);
// Parses the output of CommunicationToJson.
CommunicationTimes CommunicationFromJson(const nlohmann::ordered_json& json);

// Returns a Markdown table with a row per transport, number of ranks and size, and a column per
// kind of traffic with median time, algorithm and bus bandwidth. Messages passed by reference have
// only a time, because no data is moved.
std::string CommunicationTable(const std::vector<CommunicationTimes>& all);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_TRANSPORTS_COMMUNICATION_REPORT_H_
