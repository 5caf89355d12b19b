#include "core/report/perfetto.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/report/trace_index.h"
#include "nlohmann/json.hpp"

namespace dpipe::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStreamNames[] = {"compute", "send", "receive", "collective"};

class Writer {
 public:
  explicit Writer(const TraceIndex& index) : index_(index) {
    if (index.num_steps() > 0) origin_ns_ = index.StepStart(0);
    // What happens before the first step (its frozen work) would have negative times, which viewers
    // do not draw.
    if (!index.events().empty()) {
      origin_ns_ = std::min<Nanos>(origin_ns_, index.events().front().event->start_ns());
    }
  }

  std::string Write() {
    NameTracks();
    for (int step = 0; step < index_.num_steps(); ++step) AddStep(step);
    for (const TraceIndex::Event& event : index_.events()) AddEvent(event);
    for (size_t i = 0; i < index_.messages().size(); ++i) AddFlow(static_cast<int>(i));
    Json file;
    file["displayTimeUnit"] = "ms";
    file["otherData"] = {{"strategy", index_.plan().strategy()},
                         {"model", index_.plan().model()},
                         {"source", Trace::Source_Name(index_.trace().source())}};
    file["traceEvents"] = std::move(events_);
    return file.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  // Microseconds; a thousandth of one is exact.
  double Micros(Nanos time_ns) const {
    return static_cast<double>(time_ns - origin_ns_) / kNanosPerMicro;
  }

  // Devices are processes 1, 2, ...; process 0 is the steps, so that they are drawn on top.
  static int ProcessOf(int rank) { return rank + 1; }

  void AddName(const char* what, int process, int thread, const std::string& name) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", process},
                       {"tid", thread},
                       {"args", {{"name", name}}}});
  }

  void AddSortIndex(const char* what, int process, int thread, int order) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", process},
                       {"tid", thread},
                       {"args", {{"sort_index", order}}}});
  }

  void NameTracks() {
    AddName("process_name", 0, 0, "steps");
    AddSortIndex("process_sort_index", 0, 0, 0);
    bool used[TraceEvent::Stream_ARRAYSIZE] = {};
    for (const TraceIndex::Event& event : index_.events()) used[event.event->stream()] = true;
    for (int rank = 0; rank < index_.num_devices(); ++rank) {
      AddName("process_name", ProcessOf(rank), 0, absl::StrCat("device ", rank));
      AddSortIndex("process_sort_index", ProcessOf(rank), 0, ProcessOf(rank));
      for (int stream = 0; stream < TraceEvent::Stream_ARRAYSIZE; ++stream) {
        if (!used[stream]) continue;
        AddName("thread_name", ProcessOf(rank), stream, kStreamNames[stream]);
        AddSortIndex("thread_sort_index", ProcessOf(rank), stream, stream);
      }
    }
  }

  void AddStep(int step) {
    const Nanos start = index_.StepStart(step);
    const std::string name = absl::StrCat("step ", step);
    events_.push_back(
        {{"ph", "X"},
         {"name", name},
         {"cat", "step"},
         {"pid", 0},
         {"tid", 0},
         {"ts", Micros(start)},
         {"dur", static_cast<double>(index_.StepEnd(step) - start) / kNanosPerMicro}});
    // A line across all tracks.
    events_.push_back(
        {{"ph", "i"}, {"s", "g"}, {"name", name}, {"pid", 0}, {"tid", 0}, {"ts", Micros(start)}});
  }

  static Json Args(const Plan& plan, const TraceEvent& event, const Instruction& instruction) {
    Json args = {{"what", DescribeInstruction(plan, instruction)},
                 {"step", event.step()},
                 {"instruction", event.instruction()}};
    if (instruction.stage() >= 0) args["stage"] = instruction.stage();
    if (instruction.micro_batch() >= 0) args["micro_batch"] = instruction.micro_batch();
    for (const auto& [name, range] : {std::pair("samples", &instruction.samples()),
                                      std::pair("layers", &instruction.layers())}) {
      if (range->end() > range->begin())
        args[name] = absl::StrCat("[", range->begin(), ", ", range->end(), ")");
    }
    if (instruction.bytes() > 0) args["bytes"] = instruction.bytes();
    if (instruction.step_offset() != 0) args["step_offset"] = instruction.step_offset();
    if (instruction.predicted_duration_ns() > 0) {
      args["predicted_us"] =
          static_cast<double>(instruction.predicted_duration_ns()) / kNanosPerMicro;
    }
    return args;
  }

  void AddEvent(const TraceIndex::Event& item) {
    const TraceEvent& event = *item.event;
    events_.push_back(
        {{"ph", "X"},
         {"name", EventName(index_.plan(), *item.instruction)},
         {"cat", Instruction::Kind_Name(item.instruction->kind())},
         {"pid", ProcessOf(event.rank())},
         {"tid", static_cast<int>(event.stream())},
         {"ts", Micros(event.start_ns())},
         {"dur", static_cast<double>(event.end_ns() - event.start_ns()) / kNanosPerMicro},
         {"args", Args(index_.plan(), event, *item.instruction)}});
  }

  // An arrow begins in the slice that encloses its time on its track, so both ends are slice
  // starts.
  void AddFlow(int id) {
    const TraceIndex::Message& message = index_.messages()[id];
    for (const bool begin : {true, false}) {
      const TraceEvent& event = *index_.events()[begin ? message.send : message.recv].event;
      Json flow = {{"ph", begin ? "s" : "f"},
                   {"name", "message"},
                   {"cat", "message"},
                   {"id", id},
                   {"pid", ProcessOf(event.rank())},
                   {"tid", static_cast<int>(event.stream())},
                   {"ts", Micros(event.start_ns())}};
      if (!begin) flow["bp"] = "e";
      events_.push_back(std::move(flow));
    }
  }

  const TraceIndex& index_;
  Nanos origin_ns_ = std::numeric_limits<Nanos>::max();
  Json events_ = Json::array();
};

}  // namespace

absl::StatusOr<std::string> PerfettoJson(const Trace& trace) {
  DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(trace));
  return Writer(index).Write();
}

}  // namespace dpipe::report
