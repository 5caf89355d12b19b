#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/simulated/paper_section.h"
#include "core/report/markup.h"
#include "core/report/statistics/stats.h"
#include "core/report/table.h"

namespace dpipe::bench {
namespace {

using report::PercentText;
using report::Table;

// Returns the finite values over all cases, sorted.
std::vector<double> Sorted(const Cases& cases,
                           const std::function<double(const GridResult&)>& value) {
  std::vector<double> values;
  for (const GridResult* c : cases) {
    const double v = value(*c);
    if (std::isfinite(v)) values.push_back(v);
  }
  std::sort(values.begin(), values.end());
  return values;
}

std::string Spread(const std::vector<double>& sorted,
                   const std::function<std::string(double)>& text) {
  if (sorted.empty()) return "-";
  return absl::StrCat(text(sorted.front()), " / ", text(report::Median(sorted)), " / ",
                      text(sorted.back()));
}

struct Rival {
  std::string name;
  std::string published;
  std::function<const Outcome*(const GridResult&)> find;
};

std::vector<Rival> Rivals() {
  const auto by_label = [](const std::string& label) {
    return [label](const GridResult& c) { return c.Find(label); };
  };
  const std::string none = "-";
  return {{"data_parallel", "up to " + RatioText(kPublishedDataParallelSpeedup),
           by_label("data_parallel")},
          {"zero1", none, by_label("zero1")},
          {"zero3", none, by_label("zero3")},
          {"gpipe", none, by_label("gpipe")},
          {"spp", none, by_label("spp")},
          {"the best unfilled pipeline of one copy of the weights",
           "up to " + RatioText(kPublishedPipelineSpeedup) + " over pipelines",
           [](const GridResult& c) { return BestUnfilled(c, false); }},
          {"the best unfilled pipeline, also chimera's two copies", none,
           [](const GridResult& c) { return BestUnfilled(c, true); }}};
}

Table SpeedupTable(const Cases& cases) {
  Table table({"speedup over", "published by the paper, on its clusters",
               "diffusionpipe here: min / median / max", "opendiffusionpipe here", "cases"});
  for (const Rival& rival : Rivals()) {
    const auto over = [&](const char* label) {
      return Sorted(cases,
                    [&](const GridResult& c) { return Speedup(c.Find(label), rival.find(c)); });
    };
    const std::vector<double> combined = over(kCombined);
    const std::vector<double> plain = over(kPlain);
    table.AddRow({rival.name, rival.published, Spread(plain, RatioText),
                  Spread(combined, RatioText),
                  absl::StrCat(std::max(plain.size(), combined.size()))});
  }
  const auto bubbles = [&](const char* label) {
    return Sorted(cases, [&](const GridResult& c) {
      const Outcome* found = c.Find(label);
      return found == nullptr ? std::nan("") : found->bubble_ratio;
    });
  };
  table.AddRow({"bubbles after filling", "below " + PercentText(kPublishedBubbleRatio),
                Spread(bubbles(kPlain), PercentText), Spread(bubbles(kCombined), PercentText),
                absl::StrCat(bubbles(kPlain).size())});
  return table;
}

// Returns per model the maximum speedup over data parallelism and over pipelines, and the idle time
// that limits the former.
Table ModelTable(const Cases& cases) {
  Table table({"model", "max over data_parallel", "max over the best unfilled pipeline of one copy",
               "idle in data_parallel: min / median / max",
               "bubbles of opendiffusionpipe: min / median / max", "of them over 5 %"});
  table.SetAlign(0, Table::Align::kLeft);
  std::vector<std::string> models;
  for (const GridResult* c : cases) {
    if (std::find(models.begin(), models.end(), c->model) == models.end()) {
      models.push_back(c->model);
    }
  }
  for (const std::string& model : models) {
    Cases own;
    for (const GridResult* c : cases) {
      if (c->model == model) own.push_back(c);
    }
    const auto speedups = [&](bool over_pipeline) {
      return Sorted(own, [&](const GridResult& c) {
        return Speedup(c.Find(kCombined),
                       over_pipeline ? BestUnfilled(c, false) : c.Find("data_parallel"));
      });
    };
    const auto bubbles = [&](const char* label) {
      return Sorted(own, [&](const GridResult& c) {
        const Outcome* found = c.Find(label);
        return found == nullptr ? std::nan("") : found->bubble_ratio;
      });
    };
    const std::vector<double> ours = bubbles(kCombined);
    const auto max_text = [](const std::vector<double>& v) {
      return v.empty() ? "-" : RatioText(v.back());
    };
    const auto above =
        ours.end() - std::upper_bound(ours.begin(), ours.end(), kPublishedBubbleRatio);
    table.AddRow({model, max_text(speedups(false)), max_text(speedups(true)),
                  Spread(bubbles("data_parallel"), PercentText), Spread(ours, PercentText),
                  absl::StrCat(above, " of ", ours.size())});
  }
  return table;
}

using Value = std::function<double(const GridResult&)>;

// Returns "17 of 63 cases reach 1.28x and 5 are below 1.00x".
std::string Counts(const std::vector<double>& sorted, double published) {
  const auto below = [&](double value) {
    return std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
  };
  return absl::StrCat(sorted.size() - below(published), " of ", sorted.size(), " cases reach ",
                      RatioText(published), " and ", below(1), " are below 1.00x");
}

// Returns text that compares the grid with the published maxima.
std::string AgainstPublished(const Cases& cases) {
  const auto of = [&](const Value& value) { return Sorted(cases, value); };
  const auto over_data =
      of([](const GridResult& c) { return Speedup(c.Find(kCombined), c.Find("data_parallel")); });
  const auto over_pipe =
      of([](const GridResult& c) { return Speedup(c.Find(kCombined), BestUnfilled(c, false)); });
  const auto idle = of([](const GridResult& c) {
    const Outcome* found = c.Find("data_parallel");
    return found == nullptr ? std::nan("") : found->bubble_ratio;
  });
  const auto over_gpipe =
      of([](const GridResult& c) { return Speedup(c.Find(kCombined), c.Find("gpipe")); });
  const auto over_spp =
      of([](const GridResult& c) { return Speedup(c.Find(kCombined), c.Find("spp")); });
  std::string text;
  if (!over_data.empty()) {
    absl::StrAppend(
        &text, "- opendiffusionpipe over data_parallel: ",
        Counts(over_data, kPublishedDataParallelSpeedup),
        ". A pipeline can gain over data parallelism only the time for which the exchange of "
        "gradients leaves devices idle, and the optimizer's work, which stages divide. On these "
        "clusters, with NVSwitch in a node and 400 Gb/s or more between nodes, that idle time is ",
        PercentText(idle.front()), " to ", PercentText(idle.back()),
        " of data_parallel's step, in the median ", PercentText(report::Median(idle)),
        ": large only if a device has few samples.\n");
  }
  if (!over_pipe.empty()) {
    absl::StrAppend(
        &text, "- opendiffusionpipe over the best unfilled pipeline of one copy: ",
        Counts(over_pipe, kPublishedPipelineSpeedup),
        ". The published maximum is over the pipelines that the paper compares with; here it is "
        "the best of gpipe, 1f1b, spp, interleaved and zb-v in each case, each at its own best "
        "depth and number of micro-batches, zero-bubble ones among them. Over gpipe ",
        Counts(over_gpipe, kPublishedPipelineSpeedup), "; over spp ",
        Counts(over_spp, kPublishedPipelineSpeedup), ".\n");
  }
  absl::StrAppend(
      &text,
      "- The cascaded models' profiles freeze nothing, so there is nothing to fill bubbles with: "
      "their pipelines of two backbones compete with a data parallelism that hides its "
      "exchanges.\n");
  const auto over_plain =
      of([](const GridResult& c) { return Speedup(c.Find(kCombined), c.Find(kPlain)); });
  if (!over_plain.empty()) {
    absl::StrAppend(
        &text, "- opendiffusionpipe over diffusionpipe, each at its own best shape: ",
        Spread(over_plain, RatioText), "; ", Counts(over_plain, 1.05),
        ". It searches many more choices within the same budget of simulated instructions, and so "
        "may miss what diffusionpipe finds.\n");
  }
  return text;
}

}  // namespace

std::string SummaryText(const Cases& cases) {
  if (cases.empty()) return "";
  return absl::StrCat(
      "\n## Summary\n\nPublished numbers are the paper's, measured on its own clusters with its "
      "own systems. The others are simulated from modelled profiles: they are the planner's "
      "predictions, not measurements of a cluster.\n\n",
      SpeedupTable(cases).ToMarkdown(), "\nOf opendiffusionpipe by model:\n\n",
      ModelTable(cases).ToMarkdown(), "\nAgainst the published maxima:\n\n",
      AgainstPublished(cases));
}

}  // namespace dpipe::bench
