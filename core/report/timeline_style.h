// How a timeline shows each kind of instruction: its colour, its names, its line in the legend.
#ifndef DPIPE_CORE_REPORT_TIMELINE_STYLE_H_
#define DPIPE_CORE_REPORT_TIMELINE_STYLE_H_

#include <set>
#include <string>
#include <vector>

#include "core/proto/plan.pb.h"

namespace dpipe::report {

struct LegendItem {
  std::vector<std::string> swatches;  // SVG elements in a box of 12 x 12
  std::string text;
};

// Views a plan, which must outlive this.
class TimelineStyle {
 public:
  explicit TimelineStyle(const Plan& plan);

  // The CSS class of the instruction's box (palette.h), or of the message's arrow.
  std::string ClassOf(const Instruction& instruction) const;

  // What may be written into its box, longest first; never empty.
  std::vector<std::string> NamesOf(const Instruction& instruction) const;

  // What the classes in `used` mean ("bub" for bubbles); ids as in TimelineOptions.
  std::vector<LegendItem> Legend(const std::set<std::string>& used,
                                 const std::string& id_prefix) const;

 private:
  void AppendStages(const std::set<std::string>& used, std::vector<LegendItem>* legend) const;

  const Plan& plan_;
  std::vector<int> frozen_order_;  // by component; -1: not frozen
};

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_STYLE_H_
