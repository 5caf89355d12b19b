// What //bench:communication has measured, for files and for people.
#ifndef DPIPE_BENCH_COMMUNICATION_REPORT_H_
#define DPIPE_BENCH_COMMUNICATION_REPORT_H_

#include <string>
#include <vector>

#include "bench/communication_ranks.h"
#include "nlohmann/json.hpp"

namespace dpipe::bench {

nlohmann::ordered_json CommunicationToJson(const CommunicationTimes& measured);
// Of what CommunicationToJson has made.
CommunicationTimes CommunicationFromJson(const nlohmann::ordered_json& json);

// One table in Markdown: a row a transport, number of ranks and size, a column a kind of traffic
// with median time, algorithm and bus bandwidth. Messages that are handed over by reference have
// the time alone, since nothing is carried.
std::string CommunicationTable(const std::vector<CommunicationTimes>& all);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMMUNICATION_REPORT_H_
