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
# The matrix is symmetric with a diagonal. Each pair is written once; edgewise adds the other direction.
adjacency = week["adjacency"]
first, second = np.nonzero(np.triu(adjacency, 1))
pairs = {"from": first, "to": second}
names = {end: [sensors[place] for place in places] for end, places in pairs.items()}
pd.DataFrame({**names, "weight": adjacency[first, second]}).to_csv(roads, index=False)
