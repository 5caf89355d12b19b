// How a timeline shows each kind of instruction: its colour, its names, its line in the legend.
#ifndef DPIPE_CORE_REPORT_TIMELINE_STYLE_H_
#define DPIPE_CORE_REPORT_TIMELINE_STYLE_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/proto/plan.pb.h"
#include "core/report/palette.h"

namespace dpipe::report {

struct LegendItem {
  std::vector<std::string> swatches;  // SVG elements in a box of 12 x 12
  std::string text;
};

// Views a plan, which must outlive this.
//
// A stage's hue follows from its place in its chain, so that the copies of a stage in the two
// directions of a bidirectional schedule look alike; where that is taken by another stage of the
// same rank, it is the next free one. Self-conditioning's two laps over one stage share a hue.
class TimelineStyle {
 public:
  explicit TimelineStyle(const Plan& plan);

  // The CSS class of the instruction's box (palette.h), or of the message's arrow.
  std::string ClassOf(const Instruction& instruction) const;

  // Of a stage; 0 if there is none such.
  int HueOf(int stage) const;
  // Whether the instruction belongs to a second chain (an odd one), which is marked by a band.
  bool IsOtherDirection(const Instruction& instruction) const;

  // What may be written into its box, longest first; never empty.
  std::vector<std::string> NamesOf(const Instruction& instruction) const;

  // What the classes in `used` mean ("bub" for bubbles); ids as in TimelineOptions.
  std::vector<LegendItem> Legend(const std::set<std::string>& used,
                                 const std::string& id_prefix) const;

 private:
  void ChooseHues();
  Pass PassOf(const Instruction& instruction) const;
  void AppendPasses(const std::set<std::string>& used, std::vector<LegendItem>* legend) const;
  void AppendStages(const std::set<std::string>& used, std::vector<LegendItem>* legend) const;

  const Plan& plan_;
  std::vector<int> frozen_order_;  // by component; -1: not frozen
  std::map<int, int> hues_;        // by stage id
};

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_STYLE_H_
