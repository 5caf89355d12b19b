#include "bench/simulated/tile_chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/report/markup.h"
#include "core/report/palette.h"

namespace dpipe::bench {
namespace {

using report::EscapeMarkup;
using report::NumberText;
using report::Rgb;
using report::Theme;

constexpr int kWidth = 480, kMargin = 8, kTileHeight = 66, kGap = 3;
constexpr int kTop = 53, kLegendRow = 20, kLegendColumns = 2;
constexpr int kLineHeight = 13, kHeadHeight = 20;
constexpr double kLetter = 6.6;  // mean width of a letter of a name, in pixels
constexpr int kMinLeft = 58;

// Blues of falling lightness in light themes, of rising lightness in dark ones, so that the
// strongest differs most from the background; then an orange, and the background.
Rgb ToneColor(Theme theme, Tone tone) {
  struct Shade {
    double lightness, chroma, hue;
  };
  constexpr Shade kLightTheme[] = {{0.955, 0.010, 255}, {0.88, 0.05, 255}, {0.77, 0.10, 255},
                                   {0.61, 0.14, 255},   {0.44, 0.14, 255}, {0.80, 0.13, 70}};
  constexpr Shade kDarkTheme[] = {{0.27, 0.015, 255}, {0.35, 0.06, 255}, {0.46, 0.10, 255},
                                  {0.62, 0.13, 255},  {0.82, 0.09, 255}, {0.62, 0.12, 65}};
  if (tone == Tone::kEmpty) return SurfaceColor(theme);
  const Shade& shade = (theme == Theme::kLight ? kLightTheme : kDarkTheme)[static_cast<int>(tone)];
  return report::OklchToRgb(shade.lightness, shade.chroma, shade.hue);
}

std::string Css(Theme theme) {
  std::string css = absl::StrCat("text{fill:", HexText(TextColor(theme)),
                                 "}.s{fill:", HexText(SurfaceColor(theme)),
                                 "}rect.e{stroke:", HexText(TextColor(theme)), "}");
  for (const Tone tone : {Tone::kFaint, Tone::kLight, Tone::kMedium, Tone::kStrong,
                          Tone::kStrongest, Tone::kOther, Tone::kEmpty}) {
    const Rgb color = ToneColor(theme, tone);
    const int k = static_cast<int>(tone);
    absl::StrAppend(&css, ".k", k, "{fill:", HexText(color), "}text.x", k,
                    "{fill:", HexText(TextColorOn(color)), "}");
  }
  return css;
}

std::string Text(double x, double y, const char* anchor, const std::string& css_class,
                 const std::string& text) {
  return absl::StrCat("<text x=\"", NumberText(x), "\" y=\"", NumberText(y), "\" text-anchor=\"",
                      anchor, "\" class=\"", css_class, "\">", EscapeMarkup(text), "</text>\n");
}

std::string Rect(double x, double y, double width, double height, Tone tone) {
  return absl::StrCat("<rect class=\"k", static_cast<int>(tone), tone == Tone::kEmpty ? " e" : "",
                      "\" x=\"", NumberText(x), "\" y=\"", NumberText(y), "\" width=\"",
                      NumberText(width), "\" height=\"", NumberText(height), "\" rx=\"3\"/>\n");
}

std::vector<std::string> LinesOf(const std::string& name) { return absl::StrSplit(name, '\n'); }

// Title, column axis and names of columns.
int TopOf(const TileChart& chart) {
  size_t lines = 1;
  for (const std::string& column : chart.columns) lines = std::max(lines, LinesOf(column).size());
  return kTop + static_cast<int>(lines) * kLineHeight;
}

int LeftOf(const TileChart& chart) {
  size_t longest = 0;
  for (const std::string& row : chart.rows) {
    for (const std::string& line : LinesOf(row)) longest = std::max(longest, line.size());
  }
  return std::max(kMinLeft, static_cast<int>(kLetter * static_cast<double>(longest)) + 2 * kMargin);
}

// Head and lines are centred in the tile.
std::string TileSvg(const Tile& tile, double x, double y, double width) {
  std::string svg = Rect(x, y, width, kTileHeight - kGap, tile.tone);
  const int head = tile.head.empty() ? 0 : kHeadHeight;
  const int lines = static_cast<int>(tile.lines.size()) * kLineHeight;
  double at = y + (kTileHeight - kGap - head - lines) / 2.0;
  const std::string color = absl::StrCat("x", static_cast<int>(tile.tone));
  const double middle = x + width / 2;
  if (head > 0) svg += Text(middle, at + 15, "middle", "h " + color, tile.head);
  at += head;
  for (const std::string& line : tile.lines) {
    svg += Text(middle, at + 10, "middle", "n " + color, line);
    at += kLineHeight;
  }
  return svg;
}

std::string Legend(const TileChart& chart, int top) {
  std::string svg;
  for (size_t i = 0; i < chart.legend.size(); ++i) {
    const double x = kMargin + static_cast<double>(i % kLegendColumns) * (kWidth / kLegendColumns);
    const double y = top + static_cast<double>(i / kLegendColumns) * kLegendRow;
    svg += Rect(x, y, 14, 14, chart.legend[i].first);
    svg += Text(x + 20, y + 11.5, "start", "a", chart.legend[i].second);
  }
  return svg;
}

}  // namespace

std::string TileChartSvg(const TileChart& chart) {
  const int legend_rows =
      static_cast<int>((chart.legend.size() + kLegendColumns - 1) / kLegendColumns);
  const int top = TopOf(chart);
  const int bottom = top + static_cast<int>(chart.rows.size()) * kTileHeight;
  const int height = bottom + 10 + legend_rows * kLegendRow + 4;
  std::string svg = absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", height,
      "\" width=\"", kWidth, "\" height=\"", height, "\" role=\"img\">\n<title>",
      EscapeMarkup(chart.title),
      "</title>\n<style>text{font:12px system-ui,sans-serif}.t{font-size:15px;font-weight:600}"
      ".h{font-size:17px;font-weight:600}.n{font-size:11px}rect.e{stroke-width:1;"
      "stroke-opacity:.45;stroke-dasharray:3 3}",
      Css(Theme::kLight), "@media(prefers-color-scheme:dark){", Css(Theme::kDark),
      "}</style>\n<rect class=\"s\" width=\"100%\" height=\"100%\"/>\n");
  svg += Text(kMargin, 20, "start", "t", chart.title);
  svg += Text(kWidth - kMargin, 20, "end", "a", chart.origin);
  const int left = LeftOf(chart);
  const double width =
      static_cast<double>(kWidth - left - kMargin) / std::max<size_t>(1, chart.columns.size());
  svg += Text(left, 38, "start", "a", chart.column_axis);
  svg += Text(kMargin, top - 8, "start", "n", chart.row_axis);
  for (size_t c = 0; c < chart.columns.size(); ++c) {
    const std::vector<std::string> lines = LinesOf(chart.columns[c]);
    for (size_t i = 0; i < lines.size(); ++i) {
      const double y = top - 8 - static_cast<double>(lines.size() - 1 - i) * kLineHeight;
      svg += Text(left + (static_cast<double>(c) + 0.5) * width, y, "middle", "a", lines[i]);
    }
  }
  for (size_t r = 0; r < chart.rows.size(); ++r) {
    const double y = top + static_cast<double>(r) * kTileHeight;
    const std::vector<std::string> lines = LinesOf(chart.rows[r]);
    const double first =
        y + kTileHeight / 2.0 + 3 - static_cast<double>(lines.size() - 1) * kLineHeight / 2.0;
    for (size_t i = 0; i < lines.size(); ++i) {
      svg += Text(left - 8, first + static_cast<double>(i) * kLineHeight, "end", "a", lines[i]);
    }
    for (size_t c = 0; c < chart.tiles[r].size(); ++c) {
      svg += TileSvg(chart.tiles[r][c], left + static_cast<double>(c) * width, y, width - kGap);
    }
  }
  return svg + Legend(chart, bottom + 10) + "</svg>\n";
}

}  // namespace dpipe::bench
