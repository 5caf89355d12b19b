// A small strict reader for the XML that this package writes; for its tests.
#ifndef DPIPE_CORE_REPORT_TESTING_XML_READER_H_
#define DPIPE_CORE_REPORT_TESTING_XML_READER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe::report {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;  // as written, entities not decoded
  std::string text;                               // direct text, before and after children
  int parent = -1;                                // index in the list; -1 for the root
};

// Returns elements in the order of their start tags. Returns InvalidArgument, with the position,
// unless: every element is closed in order; attributes are quoted, unique, and free of "<"; every
// "&" begins an entity; there is one root. A leading <!DOCTYPE> is allowed. The text of <script>
// and <style> is taken literally, as in HTML.
absl::StatusOr<std::vector<XmlElement>> ReadXml(absl::string_view text);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TESTING_XML_READER_H_
