#include "bench/transports/communication_report.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/bytes.h"
#include "core/report/table.h"

namespace dpipe::bench {
namespace {

using Json = nlohmann::ordered_json;

bool IsByReference(const std::string& transport, Traffic traffic) {
  return transport == "in_process" &&
         (traffic == Traffic::kSendReceive || traffic == Traffic::kBroadcast);
}

std::string Cell(const std::string& transport, const TrafficTime& time) {
  const std::string median = FormatDuration(time.median_ns);
  if (IsByReference(transport, time.traffic)) return absl::StrCat(median, ", by reference");
  return absl::StrFormat("%s, %.3g / %.3g", median, AlgorithmBandwidth(time) / 1e9,
                         BusBandwidth(time) / 1e9);
}

}  // namespace

Json CommunicationToJson(const CommunicationTimes& measured) {
  Json json = {{"transport", measured.transport}, {"ranks", measured.num_ranks}};
  for (const TrafficTime& time : measured.times) {
    Json entry = {{"traffic", TrafficName(time.traffic)},
                  {"bytes", time.size_bytes},
                  {"repeats", time.repeats},
                  {"median_ns", time.median_ns},
                  {"fastest_ns", time.fastest_ns},
                  {"slowest_ns", time.slowest_ns}};
    if (!IsByReference(measured.transport, time.traffic)) {
      entry["algorithm_bytes_per_s"] = AlgorithmBandwidth(time);
      entry["bus_bytes_per_s"] = BusBandwidth(time);
    }
    json["times"].push_back(std::move(entry));
  }
  return json;
}

CommunicationTimes CommunicationFromJson(const Json& json) {
  CommunicationTimes measured{json["transport"], json["ranks"], {}};
  for (const Json& entry : json["times"]) {
    TrafficTime time;
    for (Traffic traffic : AllTraffic()) {
      if (entry["traffic"] == TrafficName(traffic)) time.traffic = traffic;
    }
    time.num_ranks = measured.num_ranks;
    time.size_bytes = entry["bytes"];
    time.repeats = entry["repeats"];
    time.median_ns = entry["median_ns"];
    time.fastest_ns = entry["fastest_ns"];
    time.slowest_ns = entry["slowest_ns"];
    measured.times.push_back(time);
  }
  return measured;
}

std::string CommunicationTable(const std::vector<CommunicationTimes>& all) {
  std::vector<std::string> headers = {"transport", "ranks", "size"};
  for (Traffic traffic : AllTraffic()) headers.push_back(TrafficName(traffic));
  report::Table table(headers);
  for (const CommunicationTimes& measured : all) {
    std::map<int64_t, std::vector<std::string>> rows;
    for (const TrafficTime& time : measured.times) {
      std::vector<std::string>& row = rows[time.size_bytes];
      if (row.empty()) {
        row = {measured.transport, absl::StrCat(measured.num_ranks), FormatBytes(time.size_bytes)};
      }
      row.push_back(Cell(measured.transport, time));
    }
    for (auto& [size, row] : rows) table.AddRow(std::move(row));
  }
  return table.ToMarkdown();
}

}  // namespace dpipe::bench
