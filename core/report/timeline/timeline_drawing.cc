#include "core/report/timeline/timeline_drawing.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/report/markup.h"
#include "core/report/text_width.h"
#include "core/report/timeline/bubbles.h"
#include "core/report/timeline/timeline_overlays.h"
#include "core/report/timeline/timeline_style.h"

namespace dpipe::report {
namespace {

constexpr int kMemoryGapPx = 10;
constexpr double kThinPx = 4;

// Returns the longest that fits beside a lane: "stage 3", "stages 0, 7", "s0,7,11,12", "6 stages".
std::string StagesLabel(const std::vector<int>& stages) {
  for (const std::string& text :
       {absl::StrCat(stages.size() > 1 ? "stages " : "stage ", absl::StrJoin(stages, ", ")),
        absl::StrCat("s", absl::StrJoin(stages, ","))}) {
    if (kCharacterPx * DisplayWidth(text) < kLabelWidthPx) return text;
  }
  return absl::StrCat(stages.size(), " stages");
}

class Drawer {
 public:
  Drawer(const TraceIndex& index, StepWindow window, const TimelineOptions& options)
      : index_(index),
        window_(window),
        options_(options),
        layout_(LayoutOf(index, window, options)),
        style_(index.plan()) {}

  TimelineDrawing Draw() {
    // All steady steps count, as in the numbers beside a picture, unless certain ones are
    // requested.
    const std::vector<DeviceTime> devices =
        DeviceTimes(index_, options_.window.num_steps > 0 ? window_ : index_.SteadySteps());
    const int lanes_end = layout_.LaneTop(layout_.num_ranks) - TimelineLayout::kGapPx + 8;
    MemoryChart memory;
    if (options_.draw_memory) {
      memory = DrawMemory(index_, layout_, options_.memory_limit_bytes, options_.memory_axis_bytes,
                          lanes_end + kMemoryGapPx);
      if (memory.height_px > 0) memory.height_px += kMemoryGapPx;
    }
    drawing_.height_px = lanes_end + memory.height_px + TimelineLayout::kAxisPx;
    DrawDefinitions();
    DrawAxis();
    drawing_.labels += memory.labels;
    drawing_.body += memory.body;
    for (int rank = 0; rank < layout_.num_ranks; ++rank) DrawLabel(rank, devices[rank]);
    for (const Bubble& bubble : FindBubbles(index_, window_)) DrawBubble(bubble);
    for (size_t i = 0; i < index_.events().size(); ++i) DrawEvent(static_cast<int>(i));
    NameFrozenRuns();
    if (options_.draw_messages) DrawMessages();
    if (options_.draw_critical_path) {
      const std::string path = DrawCriticalPath(index_, layout_);
      if (!path.empty()) used_.insert("crit");
      drawing_.body += path;
    }
    DrawSteps();
    drawing_.legend = style_.Legend(used_, options_.id_prefix);
    drawing_.description = absl::StrCat(
        index_.plan().strategy(), " on ", index_.num_devices(), " devices, ", window_.num_steps,
        window_.num_steps == 1 ? " step" : " steps", " of ",
        ShortDuration(static_cast<double>(layout_.end_ns - layout_.start_ns) / window_.num_steps),
        "; devices idle ", PercentText(BubbleRatio(devices)), " of the time");
    return std::move(drawing_);
  }

 private:
  static TimelineLayout LayoutOf(const TraceIndex& index, StepWindow window,
                                 const TimelineOptions& options) {
    TimelineLayout layout;
    layout.start_ns = index.StepStart(window.first_step);
    layout.end_ns = index.StepEnd(window.first_step + window.num_steps - 1);
    layout.axis_ns = std::max(options.axis_ns, layout.end_ns - layout.start_ns);
    layout.num_ranks = index.num_devices();
    if (options.num_devices > 0) {
      layout.num_ranks = std::min(layout.num_ranks, options.num_devices);
    }
    layout.lane_px = layout.num_ranks <= 4 ? 38 : layout.num_ranks <= 16 ? 28 : 20;
    return layout;
  }

  int LaneTop(int rank) const { return layout_.LaneTop(rank); }
  double Percent(Nanos time_ns) const { return layout_.Percent(time_ns); }

  bool Fits(const std::string& text, double width_percent) const {
    return kCharacterPx * DisplayWidth(text) + 4 <= width_percent / 100 * options_.nominal_width_px;
  }

  // Returns "3.21 ms, from 12.3 to 15.5 ms", relative to the window's start.
  std::string TimeText(Nanos start_ns, Nanos end_ns) const {
    return absl::StrCat(
        ShortDuration(static_cast<double>(end_ns - start_ns)), ", from ",
        NumberText(static_cast<double>((start_ns - layout_.start_ns) / kNanosPerMicro) / 1000),
        " to ",
        NumberText(static_cast<double>((end_ns - layout_.start_ns) / kNanosPerMicro) / 1000),
        " ms");
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
    const int bottom = drawing_.height_px - TimelineLayout::kAxisPx;
    const double range_ms = static_cast<double>(layout_.axis_ns) / kNanosPerMilli;
    if (range_ms <= 0) return;
    // The page's script redraws the group at every zoom level.
    absl::StrAppend(&drawing_.body, "<g class=\"axis\" data-ms=\"", NumberText(range_ms),
                    "\" data-top=\"", TimelineLayout::kHeaderPx, "\" data-bottom=\"", bottom,
                    "\">\n");
    const double tick_ms = NiceTick(range_ms, 10);
    for (int i = 0; i * tick_ms <= range_ms * 1.0001; ++i) {
      const std::string x = NumberText(100 * i * tick_ms / range_ms);
      absl::StrAppend(&drawing_.body, "<line class=\"grid\" x1=\"", x, "%\" x2=\"", x, "%\" y1=\"",
                      TimelineLayout::kHeaderPx, "\" y2=\"", bottom + 4, "\"/>");
      // Centred names at the edges would be cut off.
      const char* anchor = i == 0 ? "start" : i * tick_ms > 0.97 * range_ms ? "end" : "middle";
      absl::StrAppend(&drawing_.body, "<text class=\"mut\" x=\"", x, "%\" y=\"", bottom + 17,
                      "\" text-anchor=\"", anchor, "\">", NumberText(i * tick_ms),
                      i == 0 ? " ms" : "", "</text>\n");
    }
    drawing_.body += "</g>\n";
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
                    StagesLabel(stages), "</text>");
    absl::StrAppend(&drawing_.labels, "<text class=\"mut\" x=\"0\" y=\"", y + 39, "\">idle ",
                    PercentText(idle), "</text>\n");
    absl::StrAppend(&drawing_.body, "<rect class=\"lane\" x=\"0\" y=\"", y + layout_.lane_px + 1,
                    "\" width=\"", NumberText(Percent(layout_.end_ns)), "%\" height=\"",
                    TimelineLayout::kMessagePx, "\"/>\n");
  }

  void DrawBubble(const Bubble& bubble) {
    const double x = Percent(bubble.start_ns), width = Percent(bubble.end_ns) - x;
    if (width < TimelineLayout::kMinPercent || bubble.rank >= layout_.num_ranks) return;
    const std::string text = ShortDuration(static_cast<double>(bubble.end_ns - bubble.start_ns));
    DrawBox({"bubble",
             "bub",
             x,
             width,
             LaneTop(bubble.rank),
             layout_.lane_px,
             {text},
             absl::StrCat("idle (", BubbleReasonName(bubble.reason),
                          "): ", TimeText(bubble.start_ns, bubble.end_ns)),
             /*band=*/false});
    used_.insert("bub");
  }

  struct Box {
    std::string attribute;  // of the group: identifies the event
    std::string css_class;
    double x, width;  // percent
    int y, height;
    std::vector<std::string> names;  // the first that fits is used
    std::string title;
    bool band = false;
  };

  void DrawBox(const Box& box) {
    const double width = std::max(box.width, TimelineLayout::kMinPercent);
    // The border would hide a narrow box.
    const bool thin = width / 100 * options_.nominal_width_px < kThinPx;
    absl::StrAppend(&drawing_.body, "<g class=\"e", thin ? " thin" : "", "\" data-k=\"",
                    box.attribute, "\"");
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
    if (!layout_.Shows(event)) return;
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
    box.height = layout_.lane_px;
    if (compute) {
      box.names = style_.NamesOf(instruction);
      box.band = style_.IsOtherDirection(instruction);
      if (box.band) used_.insert("band");
    } else {
      box.y = layout_.StreamTop(event.rank(), event.stream());
      box.height = layout_.StreamHeight(event.stream());
    }
    box.title = absl::StrCat(message && instruction.kind() == Instruction::SEND ? "sending " : "",
                             instruction.kind() == Instruction::RECV ? "receiving " : "",
                             DescribeInstruction(index_.plan(), instruction), ": ",
                             TimeText(event.start_ns(), event.end_ns()));
    DrawBox(box);
  }

  // Boxes of fill work are often too narrow for their names. A run of boxes of one component gets
  // one name.
  void NameFrozenRuns() {
    std::vector<FrozenRun> runs(index_.num_devices());
    for (const TraceIndex::Event& item : index_.events()) {
      const TraceEvent& event = *item.event;
      if (event.stream() != TraceEvent::COMPUTE || !layout_.Shows(event)) continue;
      FrozenRun& run = runs[event.rank()];
      const double x = Percent(event.start_ns()), end = Percent(event.end_ns());
      const bool frozen = item.instruction->kind() == Instruction::FROZEN_FORWARD;
      const std::string css_class = style_.ClassOf(*item.instruction);
      if (frozen && run.count > 0 && run.css_class == css_class &&
          x - run.end < TimelineLayout::kMinPercent) {
        run.end = end;
        run.widest = std::max(run.widest, end - x);
        ++run.count;
        continue;
      }
      NameRun(event.rank(), run);
      run = frozen
                ? FrozenRun{x, end, end - x, 1, style_.NamesOf(*item.instruction).back(), css_class}
                : FrozenRun{};
    }
    for (int rank = 0; rank < layout_.num_ranks; ++rank) NameRun(rank, runs[rank]);
  }

  struct FrozenRun {
    double x = 0, end = 0, widest = 0;  // percent
    int count = 0;                      // number of boxes
    std::string name, css_class;
  };

  void NameRun(int rank, const FrozenRun& run) {
    if (run.count < 2) return;
    if (Fits(run.name, run.widest) || !Fits(run.name + " ", run.end - run.x)) return;
    absl::StrAppend(&drawing_.body, "<text class=\"run t", run.css_class, "\" x=\"",
                    NumberText((run.x + run.end) / 2), "%\" y=\"",
                    LaneTop(rank) + layout_.lane_px / 2 + 4, "\">", EscapeMarkup(run.name),
                    "</text>\n");
  }

  // Draws lines from the sender's lane to the receiver's, through the gap between them.
  void DrawMessages() {
    for (const TraceIndex::Message& message : index_.messages()) {
      const TraceIndex::Event& send = index_.events()[message.send];
      const TraceIndex::Event& recv = index_.events()[message.recv];
      const Nanos start = send.event->start_ns(), end = std::max(start, recv.event->end_ns());
      if (start < layout_.start_ns || end > layout_.end_ns) continue;
      const int from = send.event->rank(), to = recv.event->rank();
      if (std::max(from, to) >= layout_.num_ranks) continue;
      const int y1 = LaneTop(from) + (to > from ? layout_.lane_px : 0);
      const int y2 = LaneTop(to) + (to > from ? 0 : layout_.lane_px);
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
      const Nanos start = i < window_.num_steps ? index_.StepStart(step) : layout_.end_ns;
      const std::string x = NumberText(Percent(start));
      absl::StrAppend(&drawing_.body, "<line class=\"edge\" x1=\"", x, "%\" x2=\"", x,
                      "%\" y1=\"2\" y2=\"", drawing_.height_px - TimelineLayout::kAxisPx + 4,
                      "\"/>");
      if (i == window_.num_steps) break;
      absl::StrAppend(&drawing_.body, "<svg x=\"", x, "%\" y=\"0\" width=\"200\" height=\"",
                      TimelineLayout::kHeaderPx, "\"><text class=\"lab\" x=\"6\" y=\"13\">step ",
                      step, " <tspan class=\"mut\">",
                      ShortDuration(static_cast<double>(index_.StepEnd(step) - start)),
                      "</tspan></text></svg>\n");
    }
  }

  const TraceIndex& index_;
  const StepWindow window_;
  const TimelineOptions& options_;
  const TimelineLayout layout_;
  const TimelineStyle style_;
  std::set<std::string> used_;  // classes that occur
  TimelineDrawing drawing_;
};

}  // namespace

TimelineDrawing DrawTimeline(const TraceIndex& index, StepWindow window,
                             const TimelineOptions& options) {
  return Drawer(index, window, options).Draw();
}

}  // namespace dpipe::report
