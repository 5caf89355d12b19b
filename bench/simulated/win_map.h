// Chapters of the report that say, case by case, which strategy wins and by how much over the best
// strategy that is no pipeline.
#ifndef DPIPE_BENCH_SIMULATED_WIN_MAP_H_
#define DPIPE_BENCH_SIMULATED_WIN_MAP_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/simulated/paper_grid.h"
#include "bench/simulated/paper_section.h"

namespace dpipe::bench {

struct Win {
  // Of the outcomes within 0.5 % of the fastest the first, so contenders are listed with the
  // simplest first. Null if nothing fits.
  const Outcome* winner = nullptr;
  // The fastest with one stage on every device and no filling; null if none of them fits.
  const Outcome* rival = nullptr;

  double ratio() const { return Speedup(winner, rival); }
};
Win WinOf(const GridResult& c);

// Returns "1.42x opendiffusionpipe (zb-v)", with the schedule if the strategy searches for one;
// "only zb-v, 3.10/s" if no strategy without a pipeline fits; "-" if nothing fits.
std::string WinText(const Win& win);

// A chapter: one picture and one table per panel.
struct MapChapter {
  std::string key;  // GridCase.chapter; also ends the names of its pictures
  std::string title;
  std::string intro;  // paragraphs
  std::string row_axis, column_axis;
  std::function<std::string(const GridResult&)> panel, row, column;
  bool every_strategy = false;  // a second table, of every strategy's samples per second
};

// Returns what pays where: models, over samples per device and speed of the links of 8 A100.
MapChapter LinkSpeedChapter();
// Returns fine-tuning, whole or by adapters, on clusters of small machines.
MapChapter FineTuningChapter();

// Appends the chapter's cases; nothing if there are none. Rows, columns and panels are in the order
// of their first appearance.
void AppendMapChapter(const MapChapter& chapter, const Cases& cases, PaperReport* out);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SIMULATED_WIN_MAP_H_
