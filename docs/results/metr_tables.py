"""One week of METR-LA as the two tables that edgewise reads: speeds by time and sensor, roads between sensors.

python docs/results/metr_tables.py metr_la_week/metr_la_week.npz speed.csv roads.csv
"""

import sys

import numpy as np
import pandas as pd

source, speed, roads = sys.argv[1:]
week = np.load(source)
sensors = [str(sensor) for sensor in week["sensor_id"]]
table = pd.DataFrame(week["speed_mph"], columns=sensors)
table.insert(0, "minute", week["minutes_since_start"])
table.to_csv(speed, index=False)
# The table of roads is symmetric and every sensor leads to itself; each pair is written once, to be mirrored when read.
near = week["adjacency"]
first, second = np.nonzero(np.triu(near, 1))
pairs = {"from": first, "to": second}
named = {end: [sensors[place] for place in places] for end, places in pairs.items()}
pd.DataFrame({**named, "weight": near[first, second]}).to_csv(roads, index=False)
