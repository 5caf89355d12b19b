#include "core/report/timeline/perfetto.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/report/timeline/trace_index.h"
#include "nlohmann/json.hpp"

namespace dpipe::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStepTrack = 0, kCriticalTrack = 1;
constexpr const char* kStreamNames[] = {"compute", "send", "receive", "collective"};

class Writer {
 public:
  // Numbers processes from `first_process` and flows from `first_flow`. Appends to `*events`.
  Writer(const TraceIndex& index, std::string title, int first_process, int first_flow,
         Json* events)
      : index_(index),
        title_(std::move(title)),
        first_process_(first_process),
        first_flow_(first_flow),
        events_(*events) {
    if (index.num_steps() > 0) origin_ns_ = index.StepStart(0);
    // Work before the first step (its frozen work) would have negative times, which viewers do not
    // draw.
    if (!index.events().empty()) {
      origin_ns_ = std::min<Nanos>(origin_ns_, index.events().front().event->start_ns());
    }
  }

  void Write() {
    NameTracks();
    for (int step = 0; step < index_.num_steps(); ++step) AddStep(step);
    for (const TraceIndex::Event& event : index_.events()) AddEvent(event);
    for (size_t i = 0; i < index_.messages().size(); ++i) AddFlow(static_cast<int>(i));
    for (const TraceIndex::CriticalEvent& link : index_.critical_path()) AddCritical(link);
    for (const MemorySample& sample : index_.trace().memory()) AddMemory(sample);
  }

 private:
  // Returns microseconds, exact to the nanosecond.
  double Micros(Nanos time_ns) const {
    return static_cast<double>(time_ns - origin_ns_) / kNanosPerMicro;
  }

  // Devices follow the steps, which are drawn on top.
  int ProcessOf(int rank) const { return first_process_ + 1 + rank; }
  std::string ProcessName(const std::string& name) const {
    return title_.empty() ? name : absl::StrCat(title_, ": ", name);
  }

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
    AddName("process_name", first_process_, 0, ProcessName("steps"));
    AddSortIndex("process_sort_index", first_process_, 0, first_process_);
    AddName("thread_name", first_process_, kStepTrack, "step");
    if (!index_.critical_path().empty()) {
      AddName("thread_name", first_process_, kCriticalTrack, "critical path");
    }
    bool used[TraceEvent::Stream_ARRAYSIZE] = {};
    for (const TraceIndex::Event& event : index_.events()) used[event.event->stream()] = true;
    for (int rank = 0; rank < index_.num_devices(); ++rank) {
      AddName("process_name", ProcessOf(rank), 0, ProcessName(absl::StrCat("device ", rank)));
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
         {"pid", first_process_},
         {"tid", kStepTrack},
         {"ts", Micros(start)},
         {"dur", static_cast<double>(index_.StepEnd(step) - start) / kNanosPerMicro}});
    // Draws a line across all tracks.
    events_.push_back({{"ph", "i"},
                       {"s", "g"},
                       {"name", name},
                       {"pid", first_process_},
                       {"tid", kStepTrack},
                       {"ts", Micros(start)}});
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

  // An arrow attaches to the slice that encloses its time on its track, so both ends use slice
  // starts.
  void AddFlow(int id) {
    const TraceIndex::Message& message = index_.messages()[id];
    for (const bool begin : {true, false}) {
      const TraceEvent& event = *index_.events()[begin ? message.send : message.recv].event;
      Json flow = {{"ph", begin ? "s" : "f"},
                   {"name", "message"},
                   {"cat", "message"},
                   {"id", first_flow_ + id},
                   {"pid", ProcessOf(event.rank())},
                   {"tid", static_cast<int>(event.stream())},
                   {"ts", Micros(event.start_ns())}};
      if (!begin) flow["bp"] = "e";
      events_.push_back(std::move(flow));
    }
  }

  // Adds a slice to the critical path's own track.
  void AddCritical(const TraceIndex::CriticalEvent& link) {
    const TraceEvent& event = *link.item.event;
    events_.push_back(
        {{"ph", "X"},
         {"name", absl::StrCat("device ", event.rank(), ": ",
                               EventName(index_.plan(), *link.item.instruction))},
         {"cat", "critical path"},
         {"pid", first_process_},
         {"tid", kCriticalTrack},
         {"ts", Micros(event.start_ns())},
         {"dur", static_cast<double>(event.end_ns() - event.start_ns()) / kNanosPerMicro},
         {"args",
          {{"what", DescribeInstruction(index_.plan(), *link.item.instruction)},
           {"waited_us", static_cast<double>(link.wait_ns) / kNanosPerMicro}}}});
  }

  void AddMemory(const MemorySample& sample) {
    events_.push_back({{"ph", "C"},
                       {"name", "memory"},
                       {"pid", ProcessOf(sample.rank())},
                       {"ts", Micros(sample.time_ns())},
                       {"args", {{"bytes", sample.bytes()}}}});
  }

  const TraceIndex& index_;
  const std::string title_;
  const int first_process_, first_flow_;
  Nanos origin_ns_ = std::numeric_limits<Nanos>::max();
  Json& events_;
};

}  // namespace

absl::StatusOr<std::string> PerfettoJson(const Trace& trace) {
  return PerfettoJson(std::vector<TitledTrace>{{"", &trace}});
}

absl::StatusOr<std::string> PerfettoJson(const std::vector<TitledTrace>& traces) {
  Json events = Json::array(), about = Json::array();
  int process = 0, flow = 0;
  for (const TitledTrace& titled : traces) {
    DPIPE_ASSIGN_OR_RETURN(const TraceIndex index, TraceIndex::Create(*titled.trace));
    Writer(index, titled.title, process, flow, &events).Write();
    process += index.num_devices() + 1;
    flow += static_cast<int>(index.messages().size());
    about.push_back({{"strategy", index.plan().strategy()},
                     {"model", index.plan().model()},
                     {"source", Trace::Source_Name(titled.trace->source())}});
  }
  Json file;
  file["displayTimeUnit"] = "ms";
  file["otherData"] = traces.size() == 1 ? about[0] : Json({{"traces", about}});
  file["traceEvents"] = std::move(events);
  return file.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dpipe::report
