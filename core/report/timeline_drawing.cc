#include "core/report/timeline_drawing.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/report/bubbles.h"
#include "core/report/markup.h"
#include "core/report/text_width.h"
#include "core/report/timeline_style.h"

namespace dpipe::report {
namespace {

// From top to bottom: step names; per device its lane, a thin lane of messages, a gap; the time
// axis.
constexpr int kHeaderPx = 22, kMessagePx = 9, kGapPx = 19, kAxisPx = 22;
// Of the window: what is shorter than that is not visible and is left out (bubbles), or drawn as
// wide as that (work).
constexpr double kMinPercent = 0.05;

class Drawer {
 public:
  Drawer(const TraceIndex& index, StepWindow window, const TimelineOptions& options)
      : index_(index),
        window_(window),
        options_(options),
        start_ns_(index.StepStart(window.first_step)),
        end_ns_(index.StepEnd(window.first_step + window.num_steps - 1)),
        lane_px_(index.num_devices() <= 4 ? 38 : 28),
        style_(index.plan()) {}

  TimelineDrawing Draw() {
    const std::vector<DeviceTime> devices = DeviceTimes(index_, window_);
    drawing_.height_px = LaneTop(index_.num_devices()) - kGapPx + 8 + kAxisPx;
    DrawDefinitions();
    DrawAxis();
    for (int rank = 0; rank < index_.num_devices(); ++rank) DrawLabel(rank, devices[rank]);
    for (const Bubble& bubble : FindBubbles(index_, window_)) DrawBubble(bubble);
    for (size_t i = 0; i < index_.events().size(); ++i) DrawEvent(static_cast<int>(i));
    NameFrozenRuns();
    if (options_.draw_messages) DrawMessages();
    DrawSteps();
    drawing_.legend = style_.Legend(used_, options_.id_prefix);
    drawing_.description =
        absl::StrCat(index_.plan().strategy(), " on ", index_.num_devices(), " devices, ",
                     window_.num_steps, window_.num_steps == 1 ? " step" : " steps", " of ",
                     ShortDuration(static_cast<double>(end_ns_ - start_ns_) / window_.num_steps),
                     "; devices idle ", PercentText(BubbleRatio(devices)), " of the time");
    return std::move(drawing_);
  }

 private:
  int LaneTop(int rank) const { return kHeaderPx + rank * (lane_px_ + kMessagePx + kGapPx); }

  double Percent(Nanos time_ns) const {
    const Nanos clipped = std::clamp(time_ns, start_ns_, end_ns_);
    return 100.0 * static_cast<double>(clipped - start_ns_) /
           static_cast<double>(std::max<Nanos>(1, end_ns_ - start_ns_));
  }

  bool InWindow(Nanos start_ns, Nanos end_ns) const {
    return end_ns > start_ns_ && start_ns < end_ns_;
  }

  bool Fits(const std::string& text, double width_percent) const {
    return kCharacterPx * DisplayWidth(text) + 4 <= width_percent / 100 * options_.nominal_width_px;
  }

  // "3.21 ms, from 12.3 ms" of the window.
  std::string TimeText(Nanos start_ns, Nanos end_ns) const {
    return absl::StrCat(
        ShortDuration(static_cast<double>(end_ns - start_ns)), ", from ",
        NumberText(static_cast<double>((start_ns - start_ns_) / kNanosPerMicro) / 1000), " to ",
        NumberText(static_cast<double>((end_ns - start_ns_) / kNanosPerMicro) / 1000), " ms");
  }

  void DrawDefinitions() {
    absl::StrAppend(&drawing_.body, "<defs><pattern id=\"", options_.id_prefix,
                    "-hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
                    "patternTransform=\"rotate(45)\"><rect class=\"hb\" width=\"6\" height=\"6\"/>"
                    "<path class=\"hl\" d=\"M0 0V6\"/></pattern>");
    for (const char* kind : {"act", "grad", "frz"}) {
      absl::StrAppend(
          &drawing_.body, "<marker id=\"", options_.id_prefix, "-", kind,
          "\" viewBox=\"0 0 6 6\" refX=\"5\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" "
          "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"head ",
          kind, "\" d=\"M0 0L6 3L0 6z\"/></marker>");
    }
    drawing_.body += "</defs>\n";
  }

  void DrawAxis() {
    const int bottom = drawing_.height_px - kAxisPx;
    const double range_ms = static_cast<double>(end_ns_ - start_ns_) / kNanosPerMilli;
    if (range_ms <= 0) return;
    const double tick_ms = NiceTick(range_ms, 10);
    for (int i = 0; i * tick_ms <= range_ms * 1.0001; ++i) {
      const std::string x = NumberText(100 * i * tick_ms / range_ms);
      absl::StrAppend(&drawing_.body, "<line class=\"grid\" x1=\"", x, "%\" x2=\"", x, "%\" y1=\"",
                      kHeaderPx, "\" y2=\"", bottom + 4, "\"/>");
      // Names at the very edges would be cut off if they were centred.
      const char* anchor = i == 0 ? "start" : i * tick_ms > 0.97 * range_ms ? "end" : "middle";
      absl::StrAppend(&drawing_.body, "<text class=\"mut\" x=\"", x, "%\" y=\"", bottom + 17,
                      "\" text-anchor=\"", anchor, "\">", NumberText(i * tick_ms),
                      i == 0 ? " ms" : "", "</text>\n");
    }
  }

  void DrawLabel(int rank, const DeviceTime& device) {
    std::vector<int> stages;
    for (const Stage& stage : index_.plan().stages()) {
      if (std::count(stage.ranks().begin(), stage.ranks().end(), rank) > 0)
        stages.push_back(stage.id());
    }
    const int y = LaneTop(rank);
    absl::StrAppend(&drawing_.labels, "<text class=\"lab\" x=\"0\" y=\"", y + 11, "\">device ",
                    rank, "</text>");
    const double idle = device.step_ns > 0 ? device.IdleNs() / device.step_ns : 0;
    absl::StrAppend(&drawing_.labels, "<text class=\"mut\" x=\"0\" y=\"", y + 25, "\">",
                    stages.size() > 1 ? "stages " : "stage ", absl::StrJoin(stages, ", "),
                    "</text>");
    absl::StrAppend(&drawing_.labels, "<text class=\"mut\" x=\"0\" y=\"", y + 39, "\">idle ",
                    PercentText(idle), "</text>\n");
    absl::StrAppend(&drawing_.body, "<rect class=\"lane\" x=\"0\" y=\"", y + lane_px_ + 1,
                    "\" width=\"100%\" height=\"", kMessagePx, "\"/>\n");
  }

  void DrawBubble(const Bubble& bubble) {
    const double x = Percent(bubble.start_ns), width = Percent(bubble.end_ns) - x;
    if (width < kMinPercent) return;
    const std::string text = ShortDuration(static_cast<double>(bubble.end_ns - bubble.start_ns));
    DrawBox({"bubble",
             "bub",
             x,
             width,
             LaneTop(bubble.rank),
             lane_px_,
             {text},
             absl::StrCat("idle (", BubbleReasonName(bubble.reason),
                          "): ", TimeText(bubble.start_ns, bubble.end_ns)),
             /*band=*/false});
    used_.insert("bub");
  }

  struct Box {
    std::string attribute;  // of the group: what it stands for
    std::string css_class;
    double x, width;  // percent
    int y, height;
    std::vector<std::string> names;  // the first that fits is written
    std::string title;
    bool band = false;
  };

  void DrawBox(const Box& box) {
    const double width = std::max(box.width, kMinPercent);
    absl::StrAppend(&drawing_.body, "<g class=\"e\" data-k=\"", box.attribute, "\"");
    if (!box.names.empty()) {
      absl::StrAppend(&drawing_.body, " data-t=\"", EscapeMarkup(absl::StrJoin(box.names, "|")),
                      "\"");
    }
    absl::StrAppend(&drawing_.body, "><title>", EscapeMarkup(box.title), "</title><rect class=\"",
                    box.css_class, "\"");
    if (box.css_class == "bub") {
      absl::StrAppend(&drawing_.body, " fill=\"url(#", options_.id_prefix, "-hatch)\"");
    }
    absl::StrAppend(&drawing_.body, " x=\"", NumberText(box.x), "%\" y=\"", box.y, "\" width=\"",
                    NumberText(width), "%\" height=\"", box.height, "\"/>");
    if (box.band) {
      absl::StrAppend(&drawing_.body, "<rect class=\"band\" x=\"", NumberText(box.x), "%\" y=\"",
                      box.y + box.height - 4, "\" width=\"", NumberText(width),
                      "%\" height=\"4\"/>");
    }
    for (const std::string& name : box.names) {
      if (!Fits(name, width)) continue;
      absl::StrAppend(&drawing_.body, "<text class=\"t", box.css_class, "\" x=\"",
                      NumberText(box.x + width / 2), "%\" y=\"", box.y + box.height / 2 + 4, "\">",
                      EscapeMarkup(name), "</text>");
      break;
    }
    drawing_.body += "</g>\n";
  }

  void DrawEvent(int i) {
    const TraceEvent& event = *index_.events()[i].event;
    const Instruction& instruction = *index_.events()[i].instruction;
    if (!InWindow(event.start_ns(), event.end_ns())) return;
    if (instruction.kind() == Instruction::RELEASE_PARAMS) return;
    const bool compute = event.stream() == TraceEvent::COMPUTE;
    const bool message =
        instruction.kind() == Instruction::SEND || instruction.kind() == Instruction::RECV;
    if (message && !options_.draw_messages) return;
    const std::string css_class = style_.ClassOf(instruction);
    used_.insert(css_class);
    Box box;
    box.attribute = compute ? absl::StrCat("c", i) : absl::StrCat("m", i);
    box.css_class = css_class;
    box.x = Percent(event.start_ns());
    box.width = Percent(event.end_ns()) - box.x;
    box.y = LaneTop(event.rank());
    box.height = lane_px_;
    if (compute) {
      box.names = style_.NamesOf(instruction);
      box.band = style_.IsOtherDirection(instruction);
      if (box.band) used_.insert("band");
    } else {
      // Sent above, received below; collectives take the whole thin lane.
      box.height = message ? 4 : kMessagePx;
      box.y += lane_px_ + 1 + (instruction.kind() == Instruction::RECV ? 5 : 0);
    }
    box.title = absl::StrCat(message && instruction.kind() == Instruction::SEND ? "sending " : "",
                             instruction.kind() == Instruction::RECV ? "receiving " : "",
                             DescribeInstruction(index_.plan(), instruction), ": ",
                             TimeText(event.start_ns(), event.end_ns()));
    DrawBox(box);
  }

  // Boxes of fill work are often too narrow for a name each; a run of one component's gets one
  // name.
  void NameFrozenRuns() {
    std::vector<FrozenRun> runs(index_.num_devices());
    for (const TraceIndex::Event& item : index_.events()) {
      const TraceEvent& event = *item.event;
      if (event.stream() != TraceEvent::COMPUTE || !InWindow(event.start_ns(), event.end_ns()))
        continue;
      FrozenRun& run = runs[event.rank()];
      const double x = Percent(event.start_ns()), end = Percent(event.end_ns());
      const bool frozen = item.instruction->kind() == Instruction::FROZEN_FORWARD;
      if (frozen && run.count > 0 && run.component == item.instruction->component() &&
          x - run.end < kMinPercent) {
        run.end = end;
        run.widest = std::max(run.widest, end - x);
        ++run.count;
        continue;
      }
      NameRun(event.rank(), run);
      run = frozen ? FrozenRun{item.instruction->component(),
                               x,
                               end,
                               end - x,
                               1,
                               style_.NamesOf(*item.instruction).back(),
                               style_.ClassOf(*item.instruction)}
                   : FrozenRun{};
    }
    for (int rank = 0; rank < index_.num_devices(); ++rank) NameRun(rank, runs[rank]);
  }

  struct FrozenRun {
    int component = 0;
    double x = 0, end = 0, widest = 0;  // percent
    int count = 0;                      // of boxes
    std::string name, css_class;
  };

  void NameRun(int rank, const FrozenRun& run) {
    if (run.count < 2) return;
    if (Fits(run.name, run.widest) || !Fits(run.name + " ", run.end - run.x)) return;
    absl::StrAppend(&drawing_.body, "<text class=\"run t", run.css_class, "\" x=\"",
                    NumberText((run.x + run.end) / 2), "%\" y=\"", LaneTop(rank) + lane_px_ / 2 + 4,
                    "\">", EscapeMarkup(run.name), "</text>\n");
  }

  // From the sender's lane to the receiver's, through the gap between them.
  void DrawMessages() {
    for (const TraceIndex::Message& message : index_.messages()) {
      const TraceIndex::Event& send = index_.events()[message.send];
      const TraceIndex::Event& recv = index_.events()[message.recv];
      const Nanos start = send.event->start_ns(), end = std::max(start, recv.event->end_ns());
      if (start < start_ns_ || end > end_ns_) continue;
      const int from = send.event->rank(), to = recv.event->rank();
      const int y1 = LaneTop(from) + (to > from ? lane_px_ : 0);
      const int y2 = LaneTop(to) + (to > from ? 0 : lane_px_);
      const std::string kind = style_.ClassOf(*send.instruction);
      absl::StrAppend(&drawing_.body, "<line class=\"msg ", kind, "\" x1=\"",
                      NumberText(Percent(start)), "%\" y1=\"", y1, "\" x2=\"",
                      NumberText(Percent(end)), "%\" y2=\"", y2, "\" marker-end=\"url(#",
                      options_.id_prefix, "-", kind, ")\"/>\n");
    }
  }

  void DrawSteps() {
    for (int i = 0; i <= window_.num_steps; ++i) {
      const int step = window_.first_step + i;
      const Nanos start = i < window_.num_steps ? index_.StepStart(step) : end_ns_;
      const std::string x = NumberText(Percent(start));
      absl::StrAppend(&drawing_.body, "<line class=\"edge\" x1=\"", x, "%\" x2=\"", x,
                      "%\" y1=\"2\" y2=\"", drawing_.height_px - kAxisPx + 4, "\"/>");
      if (i == window_.num_steps) break;
      absl::StrAppend(&drawing_.body, "<svg x=\"", x, "%\" y=\"0\" width=\"200\" height=\"",
                      kHeaderPx, "\"><text class=\"lab\" x=\"6\" y=\"13\">step ", step,
                      " <tspan class=\"mut\">",
                      ShortDuration(static_cast<double>(index_.StepEnd(step) - start)),
                      "</tspan></text></svg>\n");
    }
  }

  const TraceIndex& index_;
  const StepWindow window_;
  const TimelineOptions& options_;
  const Nanos start_ns_, end_ns_;
  const int lane_px_;
  const TimelineStyle style_;
  std::set<std::string> used_;  // classes that appear
  TimelineDrawing drawing_;
};

}  // namespace

TimelineDrawing DrawTimeline(const TraceIndex& index, StepWindow window,
                             const TimelineOptions& options) {
  return Drawer(index, window, options).Draw();
}

}  // namespace dpipe::report
