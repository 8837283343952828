// Line charts as an SVG text. Knows only what a chart is, nothing of training.
#pragma once

#include <string>
#include <vector>

namespace digits {

struct Point {
  double x = 0;
  double y = 0;  // on a logarithmic axis: positive, others are left out
};

struct Series {
  size_t style = 0;  // index into the figure's legend: colour, dashes and marker
  std::vector<Point> points;
  bool stairs = false;         // holds its value until the next point
  std::vector<double> events;  // x positions marked on the lower edge
};

struct Axis {
  enum class Scale { linear, decades, powers_of_two, percent };
  Scale scale = Scale::linear;
  double low = 0;  // both 0: from the data
  double high = 0;
};

struct Panel {
  std::string title;
  std::string note;  // smaller, after the title
  Axis axis;
  std::vector<Series> series;
};

struct Figure {
  std::string title;
  std::string subtitle;
  std::string x_label;
  std::vector<std::string> legend;  // at most 3, one per style
  std::vector<Panel> panels;        // two in a row
};

// The whole file. Readable without colour: each style has its own dashes and marker.
std::string draw(const Figure& figure);

}  // namespace digits
