#include "bench/comparison/link_speeds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/simulated/curve_chart.h"
#include "core/comm/rendezvous/launch/shaped_network.h"
#include "core/report/results/case_analysis.h"
#include "core/report/results/results.h"
#include "core/report/statistics/intervals.h"
#include "core/report/table.h"

namespace dpipe::bench {
namespace {

using report::Interval;
using report::StrategyAnalysis;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double SpeedOf(const CaseResult& result) {
  const auto flag = result.flags().find("link");
  if (flag == result.flags().end()) return kNaN;
  return ParseLinkSpeed(flag->second).value_or(kNaN);
}

bool IsFilled(const StrategyResult& result) {
  return result.strategy().find("diffusionpipe") != std::string::npos;
}

// Returns the strategies of all cases, in order of appearance.
std::vector<std::string> StrategiesOf(const Results& results) {
  std::vector<std::string> names;
  for (const CaseResult& one : results.cases()) {
    for (const StrategyResult& result : one.strategies()) {
      if (std::find(names.begin(), names.end(), result.strategy()) == names.end()) {
        names.push_back(result.strategy());
      }
    }
  }
  return names;
}

const StrategyAnalysis* Find(const report::CaseAnalysis& analysis, const std::string& strategy) {
  for (const StrategyAnalysis& one : analysis.strategies) {
    if (one.result->strategy() == strategy && report::Counts(*one.result)) return &one;
  }
  return nullptr;
}

// Returns the faster of the two, or null if neither was measured.
const StrategyAnalysis* BestDataParallel(const report::CaseAnalysis& analysis) {
  const StrategyAnalysis* const plain = Find(analysis, "data_parallel");
  const StrategyAnalysis* const sharded = Find(analysis, "zero1");
  if (plain == nullptr || sharded == nullptr) return plain == nullptr ? sharded : plain;
  return sharded->images_per_second.estimate > plain->images_per_second.estimate ? sharded : plain;
}

Interval Over(const report::CaseAnalysis& analysis, const StrategyAnalysis& one,
              const StrategyAnalysis& other) {
  const auto turns = [&](const StrategyAnalysis& of) {
    return report::WithoutFirst(report::Numbers(of.result->images_per_second()),
                                analysis.warm_up_turns);
  };
  const std::vector<double> above = turns(one), below = turns(other);
  const bool paired = one.result->session_group() == other.result->session_group();
  return paired ? report::PairedRatioInterval(above, below) : report::RatioInterval(above, below);
}

std::string Cell(const CaseResult& result, const std::string& strategy) {
  const report::CaseAnalysis analysis = report::AnalyseCase(result);
  const StrategyAnalysis* const one = Find(analysis, strategy);
  if (one == nullptr) return "-";
  const Interval over = OverBestDataParallel(result, strategy);
  return absl::StrCat(report::EstimateText(one->images_per_second), " (",
                      report::RatioWithBoundsText(over), ")");
}

std::string PredictionCell(const CaseResult& result, const std::string& strategy) {
  const report::CaseAnalysis analysis = report::AnalyseCase(result);
  const StrategyAnalysis* const one = Find(analysis, strategy);
  if (one == nullptr || std::isnan(one->result->step_ms_predicted())) return "-";
  const double error = one->result->step_ms_predicted() / one->step_ms - 1;
  return absl::StrFormat("%+.0f %%", 100 * error);
}

report::Table TableOf(const Results& results) {
  std::vector<std::string> headers = {"strategy"};
  for (const CaseResult& one : results.cases()) {
    headers.push_back(absl::StrCat(LinkSpeedText(SpeedOf(one)), ": images/s (over best DP)"));
    headers.push_back("predicted step");
  }
  report::Table table(headers);
  for (const std::string& strategy : StrategiesOf(results)) {
    std::vector<std::string> cells = {strategy};
    for (const CaseResult& one : results.cases()) {
      cells.push_back(Cell(one, strategy));
      cells.push_back(PredictionCell(one, strategy));
    }
    table.AddRow(cells);
  }
  return table;
}

}  // namespace

Interval OverBestDataParallel(const CaseResult& result, const std::string& strategy) {
  const report::CaseAnalysis analysis = report::AnalyseCase(result);
  const StrategyAnalysis* const one = Find(analysis, strategy);
  const StrategyAnalysis* const best = BestDataParallel(analysis);
  if (one == nullptr || best == nullptr) return {kNaN, kNaN, kNaN};
  return Over(analysis, *one, *best);
}

std::string LinkSpeedsMarkdown(const Results& results) { return TableOf(results).ToMarkdown(); }

std::string LinkSpeedsText(const Results& results) { return TableOf(results).ToText(); }

std::string LinkSpeedsSummary(const Results& results) {
  std::string text;
  for (const CaseResult& one : results.cases()) {
    const report::CaseAnalysis analysis = report::AnalyseCase(one);
    const StrategyAnalysis* filled = nullptr;
    for (const StrategyAnalysis& strategy : analysis.strategies) {
      if (!report::Counts(*strategy.result) || !IsFilled(*strategy.result)) continue;
      if (filled == nullptr ||
          strategy.images_per_second.estimate > filled->images_per_second.estimate) {
        filled = &strategy;
      }
    }
    const StrategyAnalysis* const best = BestDataParallel(analysis);
    const StrategyAnalysis* const fastest = analysis.Fastest();
    if (filled == nullptr || best == nullptr || fastest == nullptr) continue;
    absl::StrAppend(&text, LinkSpeedText(SpeedOf(one)), ": ", filled->result->strategy(), " is ",
                    report::RatioWithBoundsText(Over(analysis, *filled, *best)), " x ",
                    best->result->strategy(), "; the fastest is ", fastest->result->strategy(),
                    ".\n");
  }
  return text;
}

std::string LinkSpeedsSvg(const Results& results) {
  CurveChart chart;
  chart.title = "Measured throughput by speed of the link between devices";
  chart.x_unit = "Mb/s";
  chart.y_unit = "images/s";
  chart.logarithmic_x = true;
  for (const std::string& strategy : StrategiesOf(results)) {
    Curve curve;
    curve.name = strategy;
    curve.reference = strategy == "data_parallel";
    for (const CaseResult& one : results.cases()) {
      const double speed = SpeedOf(one);
      const report::CaseAnalysis analysis = report::AnalyseCase(one);
      const StrategyAnalysis* const result = Find(analysis, strategy);
      if (!(speed > 0) || result == nullptr) continue;
      curve.points.emplace_back(speed * 1e-6, result->images_per_second.estimate);
    }
    std::sort(curve.points.begin(), curve.points.end());
    chart.curves.push_back(std::move(curve));
  }
  return CurveChartSvg(chart);
}

}  // namespace dpipe::bench
