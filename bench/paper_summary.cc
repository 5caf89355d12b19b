#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/paper_section.h"
#include "core/report/markup.h"
#include "core/report/table.h"

namespace dpipe::bench {
namespace {

using report::PercentText;
using report::Table;

// The finite ones of a number that each case has, sorted.
std::vector<double> Sorted(const Cases& cases,
                           const std::function<double(const CaseResult&)>& value) {
  std::vector<double> values;
  for (const CaseResult* c : cases) {
    const double v = value(*c);
    if (std::isfinite(v)) values.push_back(v);
  }
  std::sort(values.begin(), values.end());
  return values;
}

double Median(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

std::string Spread(const std::vector<double>& sorted,
                   const std::function<std::string(double)>& text) {
  if (sorted.empty()) return "-";
  return absl::StrCat(text(sorted.front()), " / ", text(Median(sorted)), " / ",
                      text(sorted.back()));
}

struct Rival {
  std::string name;
  std::string published;
  std::function<const Outcome*(const CaseResult&)> find;
};

std::vector<Rival> Rivals() {
  const auto by_label = [](const std::string& label) {
    return [label](const CaseResult& c) { return c.Find(label); };
  };
  const std::string none = "-";
  return {{"data_parallel", "at most " + RatioText(kPublishedDataParallelSpeedup),
           by_label("data_parallel")},
          {"zero3", none, by_label("zero3")},
          {"gpipe", none, by_label("gpipe")},
          {"spp", none, by_label("spp")},
          {"the best unfilled pipeline",
           "at most " + RatioText(kPublishedPipelineSpeedup) + " over pipelines",
           [](const CaseResult& c) { return c.Fastest(Role::kPipeline); }}};
}

Table SpeedupTable(const Cases& cases) {
  Table table({"speedup over", "published by the paper, on its clusters",
               "diffusionpipe here: least / median / most", "opendiffusionpipe here", "cases"});
  for (const Rival& rival : Rivals()) {
    const auto over = [&](const char* label) {
      return Sorted(cases,
                    [&](const CaseResult& c) { return Speedup(c.Find(label), rival.find(c)); });
    };
    const std::vector<double> combined = over(kCombined);
    const std::vector<double> plain = over(kPlain);
    table.AddRow({rival.name, rival.published, Spread(plain, RatioText),
                  Spread(combined, RatioText),
                  absl::StrCat(std::max(plain.size(), combined.size()))});
  }
  const auto bubbles = [&](const char* label) {
    return Sorted(cases, [&](const CaseResult& c) {
      const Outcome* found = c.Find(label);
      return found == nullptr ? std::nan("") : found->bubble_ratio;
    });
  };
  table.AddRow({"bubbles after filling", "below " + PercentText(kPublishedBubbleRatio),
                Spread(bubbles(kPlain), PercentText), Spread(bubbles(kCombined), PercentText),
                absl::StrCat(bubbles(kPlain).size())});
  return table;
}

// Of one model: the most over data parallelism and over pipelines, and the idle time that limits
// the former.
Table ModelTable(const Cases& cases) {
  Table table({"model", "over data_parallel, at most", "over the best unfilled pipeline, at most",
               "idle in data_parallel: least / median / most",
               "bubbles of opendiffusionpipe: least / median / most", "of them over 5 %"});
  table.SetAlign(0, Table::Align::kLeft);
  std::vector<std::string> models;
  for (const CaseResult* c : cases) {
    if (std::find(models.begin(), models.end(), c->model) == models.end()) {
      models.push_back(c->model);
    }
  }
  for (const std::string& model : models) {
    Cases own;
    for (const CaseResult* c : cases) {
      if (c->model == model) own.push_back(c);
    }
    const auto speedups = [&](bool over_pipeline) {
      return Sorted(own, [&](const CaseResult& c) {
        return Speedup(c.Find(kCombined),
                       over_pipeline ? c.Fastest(Role::kPipeline) : c.Find("data_parallel"));
      });
    };
    const auto bubbles = [&](const char* label) {
      return Sorted(own, [&](const CaseResult& c) {
        const Outcome* found = c.Find(label);
        return found == nullptr ? std::nan("") : found->bubble_ratio;
      });
    };
    const std::vector<double> ours = bubbles(kCombined);
    const auto most = [](const std::vector<double>& v) {
      return v.empty() ? "-" : RatioText(v.back());
    };
    const auto above =
        ours.end() - std::upper_bound(ours.begin(), ours.end(), kPublishedBubbleRatio);
    table.AddRow({model, most(speedups(false)), most(speedups(true)),
                  Spread(bubbles("data_parallel"), PercentText), Spread(ours, PercentText),
                  absl::StrCat(above, " of ", ours.size())});
  }
  return table;
}

// What the grid says against the published maxima, in words.
std::string Shortfall(const Cases& cases) {
  const auto over_data = Sorted(cases, [](const CaseResult& c) {
    return Speedup(c.Find(kCombined), c.Find("data_parallel"));
  });
  const auto over_pipe = Sorted(cases, [](const CaseResult& c) {
    return Speedup(c.Find(kCombined), c.Fastest(Role::kPipeline));
  });
  const auto idle = Sorted(cases, [](const CaseResult& c) {
    const Outcome* found = c.Find("data_parallel");
    return found == nullptr ? std::nan("") : found->bubble_ratio;
  });
  std::string text;
  if (!over_data.empty()) {
    const auto slower = std::lower_bound(over_data.begin(), over_data.end(), 1) - over_data.begin();
    absl::StrAppendFormat(
        &text,
        "- Over data parallelism the paper published up to %s; here opendiffusionpipe reaches %s, "
        "and in %d of %d cases it is slower than data_parallel. The reason is in the table above: "
        "on these clusters data_parallel leaves a device idle for %s to %s of a step (median %s), "
        "as its gradients are reduced beside the backward pass over fast links. While "
        "kernels take as long as data_parallel's, no strategy can take more than that idle time "
        "away.\n",
        RatioText(kPublishedDataParallelSpeedup), RatioText(over_data.back()), slower,
        over_data.size(), PercentText(idle.front()), PercentText(idle.back()),
        PercentText(Median(idle)));
  }
  if (!over_pipe.empty()) {
    const auto below = std::lower_bound(over_pipe.begin(), over_pipe.end(), 1) - over_pipe.begin();
    absl::StrAppendFormat(
        &text,
        "- Over pipelines the paper published up to %s, over those that it compares with; the "
        "column here is over the best of gpipe, 1f1b, spp, interleaved, zb-v and chimera in each "
        "case, each at its own best depth and micro-batches: at most %s, and below 1 in %d of %d "
        "cases.\n",
        RatioText(kPublishedPipelineSpeedup), RatioText(over_pipe.back()), below, over_pipe.size());
  }
  return text;
}

}  // namespace

std::string SummaryText(const Cases& cases) {
  if (cases.empty()) return "";
  return absl::StrCat(
      "\n## Summary\n\nPublished numbers are the paper's, measured on its own clusters with its "
      "own "
      "systems. The others are simulated from modelled profiles: they say what the planner "
      "expects, "
      "not what a cluster did.\n\n",
      SpeedupTable(cases).ToMarkdown(), "\nOf opendiffusionpipe by model:\n\n",
      ModelTable(cases).ToMarkdown(), "\nWhere this grid does not reach the published maxima:\n\n",
      Shortfall(cases));
}

}  // namespace dpipe::bench
