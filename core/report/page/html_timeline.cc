#include "core/report/page/html_timeline.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/report/markup.h"
#include "core/report/page/html_charts.h"
#include "core/report/timeline/bubbles.h"
#include "core/report/timeline/timeline_style.h"

namespace dpipe::report {
namespace {

// Returns the hue of each device's first stage; 0 if it has none.
std::vector<int> HuesOfDevices(const Plan& plan, size_t num_devices) {
  const TimelineStyle style(plan);
  std::vector<int> hues(num_devices, 0);
  for (int i = plan.stages_size() - 1; i >= 0; --i) {
    for (const int rank : plan.stages(i).ranks()) {
      if (rank < 0 || rank >= static_cast<int>(num_devices)) continue;
      hues[rank] = style.HueOf(plan.stages(i).id());
    }
  }
  return hues;
}

// Returns a table of every device's idle time by reason, as shares of a step.
std::string IdleTable(const std::vector<DeviceTime>& devices) {
  constexpr BubbleReason kReasons[] = {WARM_UP, STEADY, COOL_DOWN, GRADIENT_SYNC, OPTIMIZER};
  std::string html = "<div class=\"wide\"><table><tr><th>device</th><th class=\"n\">idle</th>";
  for (const BubbleReason reason : kReasons) {
    absl::StrAppend(&html, "<th class=\"n\">", BubbleReasonName(reason), "</th>");
  }
  html += "</tr>\n";
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    const DeviceTime& device = devices[rank];
    absl::StrAppend(&html, "<tr><td>", rank, "</td><td class=\"n\">",
                    PercentText(device.IdleNs() / device.step_ns), "</td>");
    for (const BubbleReason reason : kReasons) {
      absl::StrAppend(&html, "<td class=\"n\">",
                      PercentText(device.idle_ns[reason] / device.step_ns), "</td>");
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

}  // namespace

const char kHowToReadTimelines[] =
    R"html(<section><h2>How to read the timelines</h2>
<dl><dt>lanes</dt><dd>One per device; time runs to the right. Two steps are shown, one after the other, from the
middle of the run. Numbers in boxes are micro-batches: F forward, B backward, I and W its two halves (input and weight
gradients), R recomputation; s2 is stage 2, if a device has several stages.</dd>
<dt>cool colours</dt><dd>The model being trained. A hue is a stage; pale is forward, strong is backward. A band at the
foot of a box: the second of two pipelines that run in opposite directions.</dd>
<dt>warm colours</dt><dd>Frozen components (text encoder, VAE). They only run forward, and depend on nothing that is
trained: diffusionpipe computes those of the <em>next</em> step in this step&#39;s bubbles.</dd>
<dt>hatched</dt><dd>Bubbles: the device computes nothing. Less is better.</dd>
<dt>thin lanes, arrows</dt><dd>Messages, sent (above) and received (below); arrows lead from sender to receiver.</dd>
<dt>red outlines</dt><dd>The critical path of a simulated step: the chain of work and messages that sets how long it
takes. Only shortening one of these shortens the step.</dd>
<dt>curves</dt><dd>Memory that each device holds, in a simulated run.</dd>
<dt>more</dt><dd>Hover over or tap a box for details. Zoom with + and − or with Ctrl and the wheel; drag to move. The
trace files open in <code>ui.perfetto.dev</code> and contain all events.</dd></dl></section>
)html";

std::string FigureHtml(const TimelineParts& parts, const std::string& legend) {
  const bool has_path = absl::StrContains(parts.body, "class=\"crit\"");
  return absl::StrCat(
      "<div class=\"figure\"><div class=\"figure-head\">", legend, "<div class=\"tools\">",
      has_path ? "<button data-do=\"path\" aria-pressed=\"true\" title=\"show or hide the critical "
                 "path\">path</button>"
               : "",
      "<button data-do=\"out\" title=\"zoom out\">−</button>"
      "<button data-do=\"all\" title=\"show all\">all</button>"
      "<button data-do=\"in\" title=\"zoom in (or Ctrl and wheel)\">+</button></div></div>\n"
      "<div class=\"tl\">",
      parts.labels, "<div class=\"scroll\">", parts.body,
      "</div></div>\n<output class=\"info\"></output></div>\n");
}

std::string DeviceTimesHtml(const TraceIndex& index, const std::string& id_prefix) {
  const std::vector<DeviceTime> devices = DeviceTimes(index, index.SteadySteps());
  return absl::StrCat(
      DeviceTimeChart(devices, HuesOfDevices(index.plan(), devices.size()), id_prefix),
      IdleTable(devices));
}

std::string TileHtml(const std::string& value, const std::string& meaning) {
  return absl::StrCat("<div class=\"tile\"><b>", EscapeMarkup(value), "</b><span>",
                      EscapeMarkup(meaning), "</span></div>\n");
}

const char* SourceName(const Trace& trace) {
  switch (trace.source()) {
    case Trace::EXECUTED:
      return "executed";
    case Trace::EMULATED:
      return "emulated";
    default:
      return "simulated";
  }
}

}  // namespace dpipe::report
