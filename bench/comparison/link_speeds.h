// Throughput against the speed of the link between devices: one comparison per speed, side by side.
#ifndef DPIPE_BENCH_COMPARISON_LINK_SPEEDS_H_
#define DPIPE_BENCH_COMPARISON_LINK_SPEEDS_H_

#include <string>

#include "core/proto/results.pb.h"
#include "core/report/statistics/intervals.h"

namespace dpipe::bench {

// The functions take results whose cases are of one model, each with its speed in the flag "link"
// (ParseLinkSpeed).

// Returns a Markdown or plain table with a row per strategy. It has a column per speed: images/s,
// how that compares with the faster of data_parallel and zero1, and predicted over measured step.
std::string LinkSpeedsMarkdown(const Results& results);
std::string LinkSpeedsText(const Results& results);

// Returns a sentence per speed: the best pipeline that fills its bubbles over the faster of
// data_parallel and zero1, with its interval; and which strategy is the fastest.
std::string LinkSpeedsSummary(const Results& results);

// Returns a chart of images/s over the links' speeds, as SVG. It leaves unshaped links out.
std::string LinkSpeedsSvg(const Results& results);

// Returns paired turns of `strategy` over those of the faster of data_parallel and zero1. NaN if
// one was not measured or does not count.
report::Interval OverBestDataParallel(const CaseResult& result, const std::string& strategy);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_LINK_SPEEDS_H_
