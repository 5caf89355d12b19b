// The look of each kind of instruction on a timeline: colour, names, legend entry.
#ifndef DPIPE_CORE_REPORT_TIMELINE_TIMELINE_STYLE_H_
#define DPIPE_CORE_REPORT_TIMELINE_TIMELINE_STYLE_H_

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

// Views a plan, which must outlive this object.
//
// A stage's hue is determined by its index in its chain, so that a stage's copies in both
// directions of a bidirectional schedule look alike. If another stage of the same rank has that
// hue, the next free one is taken. Both laps of self-conditioning over one stage share a hue.
class TimelineStyle {
 public:
  explicit TimelineStyle(const Plan& plan);

  // Returns the CSS class of the instruction's box (palette.h), or of the message's arrow.
  std::string ClassOf(const Instruction& instruction) const;

  // Returns the hue of a stage; 0 if the stage does not exist.
  int HueOf(int stage) const;
  // True if the instruction belongs to an odd chain, which is marked by a band.
  bool IsOtherDirection(const Instruction& instruction) const;

  // Returns the possible texts for its box, longest first; never empty.
  std::vector<std::string> NamesOf(const Instruction& instruction) const;

  // Returns legend entries for the classes in `used` ("bub" for bubbles); ids as in
  // TimelineOptions.
  std::vector<LegendItem> Legend(const std::set<std::string>& used,
                                 const std::string& id_prefix) const;

 private:
  void ChooseHues();
  Pass PassOf(const Instruction& instruction) const;
  void AppendPasses(const std::set<std::string>& used, std::vector<LegendItem>* legend) const;
  void AppendStages(const std::set<std::string>& used, std::vector<LegendItem>* legend) const;

  const Plan& plan_;
  std::vector<int> frozen_order_;  // index among frozen components; -1: not frozen
  std::map<int, int> hues_;        // by stage id
};

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_TIMELINE_STYLE_H_
