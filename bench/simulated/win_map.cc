#include "bench/simulated/win_map.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "bench/simulated/paper_cases.h"
#include "bench/simulated/paper_section.h"
#include "bench/simulated/tile_chart.h"
#include "core/report/statistics/stats.h"
#include "core/report/table.h"

namespace dpipe::bench {
namespace {

using report::Table;

constexpr double kSame = 0.995;    // of the fastest's throughput
constexpr char kLora[] = "_lora";  // ends a model's name

// The tones of ratios, each up to a limit.
struct Band {
  Tone tone;
  double below;
  const char* text;
};
constexpr Band kBands[] = {{Tone::kFaint, 1.02, "less than 1.02x"},
                           {Tone::kLight, 1.1, "1.02x to 1.1x"},
                           {Tone::kMedium, 1.5, "1.1x to 1.5x"},
                           {Tone::kStrong, 3, "1.5x to 3x"},
                           {Tone::kStrongest, HUGE_VAL, "3x or more"}};

// Names in the order of their first appearance.
void AddName(const std::string& name, std::vector<std::string>* names) {
  if (std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
}

std::string NameOf(const Outcome& outcome) {
  if (outcome.label != kCombined) return outcome.label;
  return absl::StrCat(outcome.label, " (", outcome.schedule, ")");
}

Tile TileOf(const Win& win) {
  if (win.winner == nullptr) return {Tone::kEmpty, "", {"does", "not fit"}};
  Tile tile;
  if (win.winner->label == kCombined) {
    tile.lines = {"open-", "diffusionpipe", absl::StrCat("(", win.winner->schedule, ")")};
  } else {
    tile.lines = {win.winner->label};
  }
  if (win.rival == nullptr) {
    tile.tone = Tone::kOther;
    tile.head = "only";
    return tile;
  }
  tile.head = absl::StrFormat("%.*fx", win.ratio() < 9.95 ? 2 : 1, win.ratio());
  for (const Band& band : kBands) {
    tile.tone = band.tone;
    if (win.ratio() < band.below) break;
  }
  return tile;
}

// Results of one panel by row and column; null where a case is missing.
struct Panel {
  std::string name;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<const GridResult*>> cells;
};

Panel PanelOf(const MapChapter& chapter, const std::string& name, const Cases& cases) {
  Panel panel;
  panel.name = name;
  Cases own;
  for (const GridResult* c : cases) {
    if (chapter.panel(*c) == name) own.push_back(c);
  }
  for (const GridResult* c : own) {
    AddName(chapter.row(*c), &panel.rows);
    AddName(chapter.column(*c), &panel.columns);
  }
  panel.cells.resize(panel.rows.size(), std::vector<const GridResult*>(panel.columns.size()));
  for (const GridResult* c : own) {
    const auto row = std::find(panel.rows.begin(), panel.rows.end(), chapter.row(*c));
    const auto column = std::find(panel.columns.begin(), panel.columns.end(), chapter.column(*c));
    panel.cells[row - panel.rows.begin()][column - panel.columns.begin()] = c;
  }
  return panel;
}

TileChart ChartOf(const MapChapter& chapter, const Panel& panel) {
  TileChart chart;
  chart.title = panel.name;
  chart.origin = kSimulated;
  chart.row_axis = chapter.row_axis;
  chart.column_axis = chapter.column_axis;
  chart.rows = panel.rows;
  chart.columns = panel.columns;
  for (const auto& row : panel.cells) {
    auto& tiles = chart.tiles.emplace_back();
    for (const GridResult* c : row) tiles.push_back(c == nullptr ? Tile() : TileOf(WinOf(*c)));
  }
  for (const Band& band : kBands) chart.legend.push_back({band.tone, band.text});
  chart.legend.push_back({Tone::kOther, "only pipelines fit"});
  return chart;
}

std::string InOneLine(const std::string& name) { return absl::StrReplaceAll(name, {{"\n", " "}}); }

std::string WinTable(const MapChapter& chapter, const Panel& panel) {
  std::vector<std::string> headers = {chapter.row_axis};
  for (const std::string& column : panel.columns) headers.push_back(InOneLine(column));
  Table table(headers);
  for (size_t c = 0; c < headers.size(); ++c) {
    table.SetAlign(static_cast<int>(c), Table::Align::kLeft);
  }
  for (size_t r = 0; r < panel.rows.size(); ++r) {
    std::vector<std::string> cells = {InOneLine(panel.rows[r])};
    for (const GridResult* c : panel.cells[r]) {
      cells.push_back(c == nullptr ? "" : WinText(WinOf(*c)));
    }
    table.AddRow(cells);
  }
  return table.ToMarkdown();
}

// Samples per second of every strategy, with "-" for what does not fit.
std::string RateTable(const MapChapter& chapter, const Panel& panel) {
  std::vector<std::string> headers = {"", ""};
  for (const auto& row : panel.cells) {
    for (const GridResult* c : row) {
      if (c == nullptr || headers.size() > 2) continue;
      for (const Outcome& outcome : c->outcomes) headers.push_back(outcome.label);
    }
  }
  Table table(headers);
  for (size_t column = 0; column < panel.columns.size(); ++column) {
    for (const auto& row : panel.cells) {
      const GridResult* c = row[column];
      if (c == nullptr) continue;
      std::vector<std::string> cells = {InOneLine(chapter.column(*c)), InOneLine(chapter.row(*c))};
      for (const Outcome& outcome : c->outcomes) {
        cells.push_back(outcome.planned() ? RateText(outcome.images_per_second) : "-");
      }
      table.AddRow(cells);
    }
  }
  return table.ToMarkdown();
}

// Returns "1.42x (1.00x to 3.10x)": median, minimum and maximum of the panels' ratios in this cell;
// then, if so, in how many only pipelines fit and in how many nothing does.
std::string OverPanels(const std::vector<Panel>& panels, const std::string& row,
                       const std::string& column) {
  std::vector<double> ratios;
  int alone = 0, nothing = 0;
  for (const Panel& panel : panels) {
    const auto r = std::find(panel.rows.begin(), panel.rows.end(), row) - panel.rows.begin();
    const auto c =
        std::find(panel.columns.begin(), panel.columns.end(), column) - panel.columns.begin();
    if (static_cast<size_t>(r) == panel.rows.size() ||
        static_cast<size_t>(c) == panel.columns.size() || panel.cells[r][c] == nullptr) {
      continue;
    }
    const Win win = WinOf(*panel.cells[r][c]);
    nothing += win.winner == nullptr;
    alone += win.winner != nullptr && win.rival == nullptr;
    if (std::isfinite(win.ratio())) ratios.push_back(win.ratio());
  }
  std::string text = "-";
  if (!ratios.empty()) {
    std::sort(ratios.begin(), ratios.end());
    text = absl::StrCat(RatioText(report::Median(ratios)), " (", RatioText(ratios.front()), " to ",
                        RatioText(ratios.back()), ")");
  }
  if (alone > 0) absl::StrAppend(&text, "; ", alone, " only as a pipeline");
  if (nothing > 0) absl::StrAppend(&text, "; ", nothing, " not at all");
  return text;
}

std::string SummaryTable(const MapChapter& chapter, const std::vector<Panel>& panels) {
  std::vector<std::string> rows, columns;
  for (const Panel& panel : panels) {
    for (const std::string& row : panel.rows) AddName(row, &rows);
    for (const std::string& column : panel.columns) AddName(column, &columns);
  }
  std::vector<std::string> headers = {chapter.row_axis};
  for (const std::string& column : columns) headers.push_back(InOneLine(column));
  Table table(headers);
  for (const std::string& row : rows) {
    std::vector<std::string> cells = {InOneLine(row)};
    for (const std::string& column : columns) cells.push_back(OverPanels(panels, row, column));
    table.AddRow(cells);
  }
  return table.ToMarkdown();
}

std::string LabelOf(const std::vector<MapCluster>& clusters, const std::string& name) {
  for (const MapCluster& cluster : clusters) {
    if (cluster.name == name) return cluster.label;
  }
  return name;
}

}  // namespace

Win WinOf(const GridResult& c) {
  Win win;
  double fastest = 0;
  for (const Outcome& outcome : c.outcomes) {
    if (!outcome.planned()) continue;
    fastest = std::max(fastest, outcome.images_per_second);
    if (outcome.role != Role::kDataParallel && outcome.role != Role::kSharded) continue;
    if (win.rival == nullptr || outcome.images_per_second > win.rival->images_per_second) {
      win.rival = &outcome;
    }
  }
  for (const Outcome& outcome : c.outcomes) {
    if (!outcome.planned() || outcome.images_per_second < kSame * fastest) continue;
    win.winner = &outcome;
    break;
  }
  return win;
}

std::string WinText(const Win& win) {
  if (win.winner == nullptr) return "-";
  if (win.rival != nullptr) return absl::StrCat(RatioText(win.ratio()), " ", NameOf(*win.winner));
  return absl::StrCat("only ", NameOf(*win.winner), ", ", RateText(win.winner->images_per_second),
                      "/s");
}

MapChapter LinkSpeedChapter() {
  MapChapter chapter;
  chapter.key = kLinkSpeedChapter;
  chapter.title = "Where pipelines pay";
  chapter.intro =
      "Which strategy is fastest on 8 A100 of 80 GB, and by how much over the best of "
      "data_parallel, zero1 and zero3, by the speed of the links and by samples per device and "
      "step. Each device is a node of its own with one link of that speed; in the last column "
      "all are in one node with NVLink. All strategies are priced with NCCL's collectives, which "
      "favour those that exchange whole models: this project's own sums, which are exact, cost "
      "them more. Gradients are exchanged in fp32; in bf16 a ratio would be at most halved. A "
      "step has the same samples for every strategy; accumulating more of them per step, as in "
      "the lower rows, is what makes data parallelism bearable on slow links. Every strategy may "
      "recompute activations where it would exceed the memory. If several strategies are within "
      "0.5 % of the fastest, the simplest is named. \"single\" is one stage on every device: "
      "opendiffusionpipe then uses no pipeline.";
  chapter.row_axis = "samples";
  chapter.column_axis = "link of each of 8 A100; samples per device and step";
  chapter.panel = [](const GridResult& c) { return c.model; };
  chapter.row = [](const GridResult& c) { return absl::StrCat(c.global_batch / c.num_devices); };
  chapter.column = [](const GridResult& c) { return LabelOf(LinkClusters(), c.cluster); };
  chapter.every_strategy = true;
  return chapter;
}

MapChapter FineTuningChapter() {
  const auto without = [](const GridResult& c) {
    return std::string(absl::StripSuffix(c.model, kLora));
  };
  MapChapter chapter;
  chapter.key = kFineTuningChapter;
  chapter.title = "Fine-tuning on small clusters";
  chapter.intro = absl::StrCat(
      "Which strategies fit, and how fast each is, at ", kFineTuningDeviceBatch,
      " samples per device and step: all weights, or adapters of rank 16. Weights that are not "
      "trained are held once, in bf16; trained ones in fp32 with two moments and a bf16 copy. "
      "zero3 divides all weights as FSDP does, zero1 only those that are trained. Every strategy "
      "may recompute activations where it would exceed the memory. Strategies without a pipeline "
      "hold frozen encoders whole on every device; other systems divide or offload them, so \"only "
      "pipelines fit\" is said of these strategies as they are planned here. Priced with NCCL's "
      "collectives. The 24 GB cards are RTX 4090, taken as 0.52 of an A100's speed.");
  chapter.row_axis = "";
  chapter.column_axis = absl::StrCat(kFineTuningDeviceBatch, " samples per device and step");
  chapter.panel = [without](const GridResult& c) {
    const std::string name = without(c);
    return name.substr(0, name.rfind('_'));
  };
  chapter.row = [without](const GridResult& c) {
    const std::string name = without(c);
    return absl::StrCat(absl::EndsWith(c.model, kLora) ? "LoRA" : "full", ",\n",
                        name.substr(name.rfind('_') + 1), " px");
  };
  chapter.column = [](const GridResult& c) { return LabelOf(SmallClusters(), c.cluster); };
  chapter.every_strategy = true;
  return chapter;
}

void AppendMapChapter(const MapChapter& chapter, const Cases& cases, PaperReport* out) {
  Cases own;
  std::vector<std::string> names;
  for (const GridResult* c : cases) {
    if (c->chapter != chapter.key) continue;
    own.push_back(c);
    AddName(chapter.panel(*c), &names);
  }
  if (own.empty()) return;
  std::vector<Panel> panels;
  for (const std::string& name : names) panels.push_back(PanelOf(chapter, name, own));
  absl::StrAppend(&out->markdown, "\n## ", chapter.title, "\n\n", chapter.intro,
                  "\n\nOver all models: median, minimum and maximum of the ratio.\n\n",
                  SummaryTable(chapter, panels));
  for (const Panel& panel : panels) {
    const std::string picture = absl::StrCat(panel.name, "_", chapter.key, ".svg");
    absl::StrAppend(&out->markdown, "\n### ", panel.name, "\n\n![", chapter.title, ": ", panel.name,
                    "](", picture, ")\n\n", WinTable(chapter, panel));
    if (chapter.every_strategy) {
      absl::StrAppend(&out->markdown, "\nSamples per second; \"-\": does not fit.\n\n",
                      RateTable(chapter, panel));
    }
    out->pictures[picture] = TileChartSvg(ChartOf(chapter, panel));
  }
}

}  // namespace dpipe::bench
