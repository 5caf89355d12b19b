// Charts of tiles, one per row and column, as stand-alone SVG files. Narrow enough for a telephone,
// and readable without colours: every tile says in words what its tone means.
#ifndef DPIPE_BENCH_SIMULATED_TILE_CHART_H_
#define DPIPE_BENCH_SIMULATED_TILE_CHART_H_

#include <string>
#include <utility>
#include <vector>

namespace dpipe::bench {

enum class Tone {
  kFaint,  // the first five are one scale, from the background to the strongest
  kLight,
  kMedium,
  kStrong,
  kStrongest,
  kOther,  // off the scale: another hue
  kEmpty,  // no fill
};

struct Tile {
  Tone tone = Tone::kEmpty;
  std::string head;                // in large letters; may be empty
  std::vector<std::string> lines;  // below it; up to three of about 13 letters
};

struct TileChart {
  std::string title;
  std::string origin;  // of the values, after the title: "simulated, not measured"
  std::string row_axis, column_axis;
  std::vector<std::string> rows, columns;  // names; "\n" begins another line
  std::vector<std::vector<Tile>> tiles;    // [row][column]
  std::vector<std::pair<Tone, std::string>> legend;
};

// Returns the chart as SVG, light or dark as the reader's system is set. Deterministic.
std::string TileChartSvg(const TileChart& chart);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SIMULATED_TILE_CHART_H_
